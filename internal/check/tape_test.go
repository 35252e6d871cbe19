package check_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/schemas/statepb"
)

// tape is a history that a test can edit. Every record has the turn that wrote it, so the
// manifests can be updated after a change.
type tape struct {
	t      *testing.T
	prefix string
	files  []*reel
}

type reel struct {
	check.FileMeta
	records []*frame
}

type frame struct {
	check.Record
	turn int64 // 0: not part of a turn
}

const progressKey = "\x00progress"

func record(t *testing.T, h *check.History) *tape {
	tp := &tape{t: t, prefix: h.Prefix}
	for _, f := range h.Files() {
		r := &reel{FileMeta: f.FileMeta}
		if err := f.Records(func(x *check.Record) {
			c := *x
			c.Headers = append([]check.Header{}, x.Headers...)
			r.records = append(r.records, &frame{Record: c})
		}); err != nil {
			t.Fatal(err)
		}
		tp.files = append(tp.files, r)
	}
	tp.assign()
	return tp
}

// assign finds the turn that wrote each record.
func (tp *tape) assign() {
	for _, state := range tp.files {
		if state.Topic != tp.prefix+"state" {
			continue
		}
		at := map[string]int{}
		for _, x := range state.visible() {
			if string(x.Key) != progressKey {
				continue
			}
			p := tp.progress(x)
			x.turn = p.Seq
			for _, m := range p.Manifest {
				out := tp.reel(m.Topic, state.Partition).visible()
				for n := int64(0); n < m.Records; at[m.Topic]++ {
					if r := out[at[m.Topic]]; len(r.Key) == 0 || r.Key[0] != 0 {
						r.turn = p.Seq
						n++
					}
				}
			}
		}
	}
}

func (tp *tape) progress(x *frame) *statepb.Progress {
	p := &statepb.Progress{}
	if err := proto.Unmarshal(x.Value, p); err != nil {
		tp.t.Fatal(err)
	}
	return p
}

// visible returns the records whose transaction was committed.
func (r *reel) visible() (out []*frame) {
	for i, x := range r.records {
		if x.Kind == check.Data {
			out = append(out, x)
		}
		for _, m := range r.records[i:] {
			if x.Kind == check.InTxn && m.Kind >= check.CommitMarker && m.ProducerID == x.ProducerID {
				if m.Kind == check.CommitMarker {
					out = append(out, x)
				}
				break
			}
		}
	}
	return out
}

func (tp *tape) reel(topic string, partition int32) *reel {
	for _, r := range tp.files {
		if r.Topic == topic && r.Partition == partition {
			return r
		}
	}
	tp.t.Fatalf("no %s/%d", topic, partition)
	return nil
}

// seal updates every manifest to what its turn wrote.
func (tp *tape) seal() {
	for _, state := range tp.files {
		if state.Topic != tp.prefix+"state" {
			continue
		}
		for _, x := range state.visible() {
			if string(x.Key) != progressKey {
				continue
			}
			p := tp.progress(x)
			p.Manifest = nil
			for _, out := range tp.files {
				if out.Partition != state.Partition {
					continue
				}
				m := &statepb.TopicCount{Topic: out.Topic}
				for _, r := range out.visible() {
					if r.turn != p.Seq || len(r.Key) > 0 && r.Key[0] == 0 {
						continue
					}
					var b [24]byte
					binary.BigEndian.PutUint64(b[0:], m.Digest)
					binary.BigEndian.PutUint64(b[8:], xxhash.Sum64(r.Key))
					binary.BigEndian.PutUint64(b[16:], xxhash.Sum64(r.Value))
					m.Records, m.Digest = m.Records+1, xxhash.Sum64(b[:])
				}
				if m.Records > 0 {
					p.Manifest = append(p.Manifest, m)
				}
			}
			x.Value, _ = proto.Marshal(p)
		}
	}
}

// history returns the tape as it is now.
func (tp *tape) history() *check.History {
	var files []*check.File
	for _, r := range tp.files {
		f := check.NewFile(r.FileMeta)
		for _, x := range r.records {
			f.Append(&x.Record)
		}
		files = append(files, f)
	}
	return check.NewHistory(tp.prefix, 2, files)
}

// find returns the nth visible record of a topic that has this key, and this text in its value or
// headers.
func (tp *tape) find(topic, key, text string, nth int) (*reel, int) {
	for _, r := range tp.files {
		if r.Topic != tp.prefix+topic {
			continue
		}
		seen := r.visible()
		for i, x := range r.records {
			if string(x.Key) != key || !within(x, text) || !has(seen, x) {
				continue
			}
			if nth--; nth < 0 {
				return r, i
			}
		}
	}
	tp.t.Fatalf("%s has no record of %q with %q", topic, key, text)
	return nil, 0
}

// last returns the newest record of a key.
func (tp *tape) last(topic, key string) *frame {
	n := 0
	for _, r := range tp.files {
		if r.Topic == tp.prefix+topic {
			for _, x := range r.visible() {
				if string(x.Key) == key {
					n++
				}
			}
		}
	}
	return tp.one(topic, key, "", n-1)
}

func (tp *tape) one(topic, key, text string, nth int) *frame {
	r, i := tp.find(topic, key, text, nth)
	return r.records[i]
}

func has(all []*frame, x *frame) bool {
	for _, y := range all {
		if y == x {
			return true
		}
	}
	return false
}

func within(x *frame, text string) bool {
	if strings.Contains(string(x.Value), text) {
		return true
	}
	for _, h := range x.Headers {
		if strings.Contains(h.Key+"="+string(h.Value), text) {
			return true
		}
	}
	return false
}

// drop removes a record. Its offset becomes that of a marker without a producer.
func (r *reel) drop(i int) {
	x := r.records[i]
	r.records[i] = &frame{Record: check.Record{
		Offset: x.Offset, Timestamp: x.Timestamp, Kind: check.AbortMarker,
		ProducerID: 1 << 40,
	}}
}

// insert puts a copy of x after record i. All later records move by one.
func (r *reel) insert(i int, x frame) *frame {
	c := x
	c.Headers = append([]check.Header{}, x.Headers...)
	c.Offset = r.records[i].Offset + 1
	for _, y := range r.records[i+1:] {
		y.Offset++
	}
	r.records = append(r.records[:i+1], append([]*frame{&c}, r.records[i+1:]...)...)
	r.End++
	return &c
}

func (x *frame) set(header, value string) {
	for i := range x.Headers {
		if x.Headers[i].Key == header {
			x.Headers[i].Value = []byte(value)
			return
		}
	}
	x.Headers = append(x.Headers, check.Header{Key: header, Value: []byte(value)})
}

func (x *frame) get(header string) string {
	for _, h := range x.Headers {
		if h.Key == header {
			return string(h.Value)
		}
	}
	return ""
}

// replace changes text in the value.
func (x *frame) replace(t *testing.T, old, text string) {
	if !strings.Contains(string(x.Value), old) {
		t.Fatalf("%s does not have %q", x.Value, old)
	}
	x.Value = []byte(strings.Replace(string(x.Value), old, text, 1))
}
