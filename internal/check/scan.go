package check

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// marker is the end of a producer's transaction in a topic partition.
type marker struct {
	offset, at int64
	commit     bool
}

// fates has the results of the transactions of one file.
type fates struct {
	markers map[int64][]marker // by producer id, ascending
	holes   [][2]int64         // missing offsets: [from, to)
	records int64
	last    int64 // newest append time
	first   int64 // offset of the first record, -1: none
	next    int64 // offset after the last record
	end     int   // bytes up to the last whole frame
}

// readFates reads a file once: checksums, order of offsets, markers.
func (f *File) readFates() (*fates, error) {
	out := &fates{markers: map[int64][]marker{}, first: -1, next: f.Start}
	var r Record
	for pos := 0; pos < len(f.bytes); {
		body, after, err := frameAt(f.bytes, pos)
		if errors.Is(err, errCut) {
			break
		}
		if err == nil {
			err = decodeBody(body, &r)
		}
		if err != nil {
			return nil, fmt.Errorf("%s/%d: %w", f.Topic, f.Partition, err)
		}
		if out.first >= 0 && r.Offset < out.next {
			return nil, fmt.Errorf("%s/%d: offset %d stands behind %d", f.Topic, f.Partition, r.Offset, out.next-1)
		}
		if out.first < 0 {
			out.first = r.Offset
		}
		if r.Offset > out.next {
			out.holes = append(out.holes, [2]int64{out.next, r.Offset})
		}
		if r.Kind == CommitMarker || r.Kind == AbortMarker {
			out.markers[r.ProducerID] = append(out.markers[r.ProducerID],
				marker{r.Offset, r.Timestamp, r.Kind == CommitMarker})
		}
		out.next, out.last, pos = r.Offset+1, max(out.last, r.Timestamp), after
		out.records++
		out.end = pos
	}
	return out, nil
}

// cursor iterates over the records that a read-committed reader sees.
type cursor struct {
	f         *File
	fates     *fates
	at        map[int64]int // next marker of each producer
	pos       int
	loc       int // where the record begins
	rec       Record
	committed int64 // when its transaction was committed, or else its append time
}

func newCursor(f *File, fates *fates) *cursor {
	return &cursor{f: f, fates: fates, at: map[int64]int{}}
}

// next moves to the next visible record. false: there is none.
func (c *cursor) next() bool {
	for c.pos < c.fates.end {
		body, after, err := unchecked(c.f.bytes, c.pos)
		if err != nil || decodeBody(body, &c.rec) != nil {
			return false // cannot happen: readFates has read the same bytes
		}
		c.loc, c.pos = c.pos, after
		if c.visible() {
			return true
		}
	}
	return false
}

func (c *cursor) visible() bool {
	r := &c.rec
	c.committed = r.Timestamp
	switch r.Kind {
	case Data:
		return true
	case InTxn:
	default:
		return false
	}
	ms := c.fates.markers[r.ProducerID]
	i := c.at[r.ProducerID]
	for i < len(ms) && ms[i].offset < r.Offset {
		i++
	}
	c.at[r.ProducerID] = i
	if i == len(ms) { // its marker was compacted away, or the transaction is open
		return r.Offset < c.f.Stable
	}
	c.committed = ms[i].at
	return ms[i].commit
}

// unchecked is frameAt without the checksum, for bytes that were verified.
func unchecked(b []byte, pos int) (body []byte, next int, err error) {
	d := decoder{b: b[pos:]}
	n := int(d.uvarint())
	if d.bad || n+4 > len(d.b) {
		return nil, 0, errCut
	}
	return d.b[:n:n], len(b) - len(d.b) + n + 4, nil
}

// recordAt reads the record at a position from the index.
func (f *File) recordAt(pos int, r *Record) error {
	body, _, err := unchecked(f.bytes, pos)
	if err != nil {
		return err
	}
	return decodeBody(body, r)
}

// entry is an index entry of one record: 16 bytes.
type entry struct {
	hash uint64 // of the trigger key
	loc  uint64 // 16 bits: number of the file; 48 bits: position in it
}

func (e entry) file() int { return int(e.loc >> 48) }
func (e entry) pos() int  { return int(e.loc & (1<<48 - 1)) }

// triggerKey returns the trigger of a record. For a due event that is the subject, because its
// key may be a target key.
func triggerKey(kind topicKind, r *Record) []byte {
	if kind == kindDue || kind == kindDeadLetter {
		for i := range r.Headers {
			if r.Headers[i].Key == "ce_subject" {
				return r.Headers[i].Value
			}
		}
	}
	return r.Key
}

func reservedKey(key []byte) bool { return len(key) > 0 && key[0] == 0 }

func hashKey(key []byte) uint64 { return xxhash.Sum64(key) }
