package pipeline

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// record converts a record for package topics.
func record(r *kgo.Record) *topics.Record {
	rec := recordWith(r, make([]trigger.Header, 0, len(r.Headers)))
	return &rec
}

// recordWith is record with memory for the headers.
func recordWith(r *kgo.Record, headers []trigger.Header) topics.Record {
	for _, h := range r.Headers {
		headers = append(headers, trigger.Header(h))
	}
	return topics.Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: trigger.At(r.Timestamp),
		Key: r.Key, Value: r.Value, Headers: headers,
	}
}

// kgoHeaders converts headers for kgo.
func kgoHeaders(headers []trigger.Header) []kgo.RecordHeader {
	return appendHeaders(make([]kgo.RecordHeader, 0, len(headers)), headers)
}

func appendHeaders(out []kgo.RecordHeader, headers []trigger.Header) []kgo.RecordHeader {
	for _, h := range headers {
		out = append(out, kgo.RecordHeader(h))
	}
	return out
}
