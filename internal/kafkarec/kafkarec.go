// Package kafkarec converts records between the forms of package topics, which knows no client,
// and of kgo. Neither direction copies the bytes of keys, values and headers.
package kafkarec

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Of converts a record for package topics.
func Of(r *kgo.Record) *topics.Record {
	rec := With(r, make([]trigger.Header, 0, len(r.Headers)))
	return &rec
}

// With is Of with memory for the headers: it appends them.
func With(r *kgo.Record, headers []trigger.Header) topics.Record {
	for _, h := range r.Headers {
		headers = append(headers, trigger.Header(h))
	}
	return topics.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: trigger.At(r.Timestamp),
		Key: r.Key, Value: r.Value, Headers: headers,
	}
}

// Headers converts headers for kgo.
func Headers(headers []trigger.Header) []kgo.RecordHeader {
	return AppendHeaders(make([]kgo.RecordHeader, 0, len(headers)), headers)
}

// AppendHeaders is Headers with memory for the result.
func AppendHeaders(out []kgo.RecordHeader, headers []trigger.Header) []kgo.RecordHeader {
	for _, h := range headers {
		out = append(out, kgo.RecordHeader(h))
	}
	return out
}
