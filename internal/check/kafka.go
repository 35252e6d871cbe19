package check

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kgo"
)

// FromKafka converts a record from a consumer that reads uncommitted data and keeps control
// records.
func FromKafka(r *kgo.Record) *Record {
	out := &Record{
		Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), ProducerID: r.ProducerID,
		Epoch: r.ProducerEpoch, Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, Header{h.Key, h.Value})
	}
	switch {
	case r.Attrs.IsControl():
		out.Kind = AbortMarker
		if len(r.Key) >= 4 && binary.BigEndian.Uint16(r.Key[2:]) == 1 {
			out.Kind = CommitMarker
		}
	case r.Attrs.IsTransactional():
		out.Kind = InTxn
	}
	return out
}
