package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// kcat is edenhill/kcat, with librdkafka's defaults.
type kcat struct{}

func (kcat) Name() string { return "kcat" }

// Produce runs kcat once per record. Its headers are arguments, so they cannot
// contain a zero byte; and of a record without key bytes and value bytes it
// cannot say which of them is null.
func (kcat) Produce(ctx context.Context, bootstrap string, recs []Record) error {
	for _, r := range recs {
		args, err := kcatArgs(bootstrap, r)
		if err != nil {
			return err
		}
		if _, err := run(ctx, nil, kcatInput(r), args...); err != nil {
			return err
		}
	}
	return nil
}

func kcatArgs(bootstrap string, r Record) ([]string, error) {
	args := []string{"kcat", "-P", "-b", bootstrap, "-t", r.Topic, "-D", kcatEnd}
	if len(r.Key) == 0 && len(r.Value) == 0 && (r.Key == nil || r.Value == nil) {
		return nil, fmt.Errorf("kcat: cannot say a null beside nothing")
	}
	if r.Key != nil {
		args = append(args, "-K", kcatMiddle)
	}
	if r.Value == nil {
		args = append(args, "-Z") // what is empty becomes null
	}
	for _, h := range r.Headers {
		if h.Value == nil {
			args = append(args, "-H", h.Key)
		} else {
			args = append(args, "-H", h.Key+"="+string(h.Value))
		}
	}
	if strings.ContainsRune(strings.Join(args, ""), 0) {
		return nil, fmt.Errorf("kcat: cannot say a zero byte in a header")
	}
	return args, nil
}

// kcat reads messages from its standard input up to a delimiter. These occur
// in no record of a test, and any others would do.
const (
	kcatMiddle = "<end-of-key-7c1f>"
	kcatEnd    = "<end-of-record-7c1f>"
)

func kcatInput(r Record) []byte {
	if r.Key == nil {
		return r.Value
	}
	return slices.Concat(r.Key, []byte(kcatMiddle), r.Value)
}

func (kcat) Consume(ctx context.Context, bootstrap, topic string, n int) ([]Record, error) {
	out, err := run(ctx, nil, nil, "kcat", "-C", "-b", bootstrap, "-t", topic, "-o", "beginning", "-c", fmt.Sprint(n),
		"-X", "isolation.level=read_committed", "-q", "-u", "-J")
	if err != nil {
		return nil, err
	}
	var recs []Record
	for line := range bytes.Lines(out) {
		r, err := kcatRecord(line)
		if err != nil {
			return nil, fmt.Errorf("kcat: decode %q: %w", line, err)
		}
		recs = append(recs, r)
	}
	if len(recs) != n {
		return nil, fmt.Errorf("kcat: wrote %d records, not %d", len(recs), n)
	}
	return recs, nil
}

// kcatRecord decodes a line of kcat -J. Its strings are the record's bytes,
// escaped as JSON but not necessarily UTF-8: read as Latin-1, every byte is one
// character and can be had back.
func kcatRecord(line []byte) (Record, error) {
	var j struct {
		Topic        string
		Partition    int32
		Offset       int64
		Ts           int64
		Key, Payload *string
		Headers      []*string // name, value, name, value, …
	}
	if err := json.Unmarshal(fromLatin1(line), &j); err != nil {
		return Record{}, err
	}
	if len(j.Headers)%2 != 0 {
		return Record{}, fmt.Errorf("%d headers' names and values", len(j.Headers))
	}
	r := Record{
		Topic: j.Topic, Partition: j.Partition, Offset: j.Offset, Timestamp: j.Ts, Key: toLatin1(j.Key),
		Value: toLatin1(j.Payload),
	}
	for i := 0; i < len(j.Headers); i += 2 {
		r.Headers = append(r.Headers, Header{Key: string(toLatin1(j.Headers[i])), Value: toLatin1(j.Headers[i+1])})
	}
	return r, nil
}

// fromLatin1 is UTF-8 with one character per byte of b.
func fromLatin1(b []byte) []byte {
	out := make([]byte, 0, len(b)+8)
	for _, c := range b {
		out = utf8.AppendRune(out, rune(c))
	}
	return out
}

// toLatin1 is the bytes that fromLatin1 made characters of; nil for nil.
func toLatin1(s *string) []byte {
	if s == nil {
		return nil
	}
	out := make([]byte, 0, len(*s))
	for _, r := range *s {
		out = append(out, byte(r))
	}
	return out
}
