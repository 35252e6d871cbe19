package topics

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waterclock/waterclock/trigger"
)

// The keys of the partition's own records on topic state. They begin with a
// control character, which trigger.ParseKey refuses, so no trigger has them.
var (
	KeyProgress = []byte("\x00progress")
	KeyNonce    = []byte("\x00nonce")
)

// IsReserved reports whether a key on topic state is the partition's own, not a trigger's.
func IsReserved(key []byte) bool { return len(key) > 0 && key[0] == 0 }

// Progress is the last record of every turn: what the turn's transaction has consumed and
// written. All offsets are the next to read, except in Applied and Forwarded.
type Progress struct {
	NextCommand int64
	NextReceipt int64
	NextControl int64

	EventUS int64 // the last event_us assigned
	Seq     int64 // turns, counted over all owners
	Term    int64 // owners, counted

	Applied   map[int32]int64 // highest applied origin offset by source partition
	Forwarded map[int32]int64 // highest own offset forwarded, by target partition

	Manifest []TopicCount // what this turn wrote, this record aside

	Owner  string // internal address of the owner, host:port
	Member string // its group.instance.id
	At     trigger.Instant

	Format Format // of the states before this record, and of the record without FiredThrough

	CommandsID [16]byte // topic ids, so that a recreated topic is noticed
	StateID    [16]byte

	Channels []string // channels the partition has met

	// FiredThrough and PutOff stand in records of earlier builds, of format Watermarks: the latest
	// fired_through on topic watermarks, and by channel the occurrences that their due topics had
	// put off. New records have neither.
	FiredThrough trigger.Instant
	PutOff       map[string]int64
}

// TopicCount has the number of records that a turn wrote to a topic, and a digest of them,
// which package pipeline computes.
type TopicCount struct {
	Topic   string
	Records int
	Digest  uint64
}

// AppendProgress appends the value of the progress record. The same Progress
// always gives the same bytes.
func AppendProgress(b []byte, p *Progress) ([]byte, error) {
	w := wire{b: b}
	w.int(1, int64(p.format()))
	w.int(2, p.NextCommand)
	w.int(3, p.NextReceipt)
	w.int(4, p.NextControl)
	w.int(5, p.EventUS)
	w.int(6, p.Seq)
	w.int(7, p.Term)
	w.offsets(8, p.Applied)
	w.offsets(9, p.Forwarded)
	for i := range p.Manifest {
		w.topicCount(10, &p.Manifest[i])
	}
	w.str(11, p.Owner)
	w.str(12, p.Member)
	w.int(13, int64(p.At))
	w.id(14, p.CommandsID)
	w.id(15, p.StateID)
	w.strs(16, p.Channels)
	if p.FiredThrough != 0 {
		w.int(17, int64(p.FiredThrough))
		w.counts(18, p.PutOff)
		w.int(19, int64(max(p.Format, Oldest)))
	}
	if w.err != nil {
		return b, fmt.Errorf("encode progress: %w", w.err)
	}
	return w.b, nil
}

// format is the format of the record.
func (p *Progress) format() Format {
	if p.FiredThrough != 0 {
		return max(p.Format, Watermarks)
	}
	return max(p.Format, Oldest)
}

// counts writes a map in ascending order of the name.
func (w *wire) counts(n protowire.Number, m map[string]int64) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		mark := w.open(n)
		w.str(1, name)
		w.int(2, m[name])
		w.close(mark)
	}
}

// offsets writes a map in ascending order of partition.
func (w *wire) offsets(n protowire.Number, m map[int32]int64) {
	if len(m) == 0 {
		return
	}
	var room [64]int32
	order := room[:0]
	for p := range m {
		order = append(order, p)
	}
	slices.Sort(order)
	for _, p := range order {
		mark := w.open(n)
		w.int(1, int64(p))
		w.int(2, m[p])
		w.close(mark)
	}
}

func (w *wire) topicCount(n protowire.Number, c *TopicCount) {
	mark := w.open(n)
	w.str(1, c.Topic)
	w.int(2, int64(c.Records))
	if c.Digest != 0 {
		w.b = protowire.AppendFixed64(protowire.AppendTag(w.b, 3, protowire.Fixed64Type), c.Digest)
	}
	w.close(mark)
}

// DecodeProgress reads what AppendProgress wrote. Bytes of a newer version
// give an error that wraps ErrNewer.
func DecodeProgress(b []byte) (*Progress, error) {
	p := new(Progress)
	var ofRecord, ofStates uint64
	err := fields(bytes.Clone(b), func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			ofRecord = fv.v
		case number | 19:
			ofStates = fv.v
		default:
			return decodeProgress(fv, p)
		}
		return nil
	})
	if err == nil {
		err = checkFormat(ofRecord, uint64(Newest))
	}
	if err != nil {
		return nil, fmt.Errorf("decode progress: %w", err)
	}
	p.Format = Format(cmp.Or(ofStates, ofRecord))
	return p, nil
}

func decodeProgress(fv fieldValue, p *Progress) error {
	switch fv.key() {
	case number | 2:
		p.NextCommand = int64(fv.v)
	case number | 3:
		p.NextReceipt = int64(fv.v)
	case number | 4:
		p.NextControl = int64(fv.v)
	case number | 5:
		p.EventUS = int64(fv.v)
	case number | 6:
		p.Seq = int64(fv.v)
	case number | 7:
		p.Term = int64(fv.v)
	case data | 8:
		return decodeOffset(fv.p, &p.Applied)
	case data | 9:
		return decodeOffset(fv.p, &p.Forwarded)
	case data | 10:
		p.Manifest = append(p.Manifest, TopicCount{})
		return decodeTopicCount(fv.p, &p.Manifest[len(p.Manifest)-1])
	case data | 11:
		return fv.text(&p.Owner)
	case data | 12:
		return fv.text(&p.Member)
	case number | 13:
		p.At = trigger.Instant(fv.v)
	case data | 14:
		return fv.id(&p.CommandsID)
	case data | 15:
		return fv.id(&p.StateID)
	case data | 16:
		return fv.texts(&p.Channels)
	case number | 17:
		p.FiredThrough = trigger.Instant(fv.v)
	case data | 18:
		return decodeCount(fv.p, &p.PutOff)
	default:
		return fv.unknown("progress")
	}
	return nil
}

func decodeOffset(b []byte, to *map[int32]int64) error {
	var partition int32
	var offset int64
	err := fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			partition = int32(fv.v)
		case number | 2:
			offset = int64(fv.v)
		default:
			return fv.unknown("partition offset")
		}
		return nil
	})
	if *to == nil {
		*to = make(map[int32]int64)
	}
	(*to)[partition] = offset
	return err
}

func decodeCount(b []byte, to *map[string]int64) error {
	var name string
	var n int64
	err := fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&name)
		case number | 2:
			n = int64(fv.v)
		default:
			return fv.unknown("count")
		}
		return nil
	})
	if *to == nil {
		*to = make(map[string]int64)
	}
	(*to)[name] = n
	return err
}

func decodeTopicCount(b []byte, c *TopicCount) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&c.Topic)
		case number | 2:
			c.Records = int(fv.v)
		case fixed64 | 3:
			c.Digest = fv.v
		default:
			return fv.unknown("topic count")
		}
		return nil
	})
}

// Nonce is the record that a new owner commits to topic state. It then reads the topic up to
// this record, so it knows that it has read everything before it.
type Nonce struct {
	ID     [16]byte // random
	Member string
	Term   int64
	At     trigger.Instant
	Group  string // consumer group of the owner
}

// AppendNonce appends the value of the nonce record.
func AppendNonce(b []byte, n *Nonce) ([]byte, error) {
	w := wire{b: b}
	w.int(1, int64(Oldest))
	w.id(2, n.ID)
	w.str(3, n.Member)
	w.int(4, n.Term)
	w.int(5, int64(n.At))
	w.str(6, n.Group)
	if w.err != nil {
		return b, fmt.Errorf("encode nonce: %w", w.err)
	}
	return w.b, nil
}

// DecodeNonce reads what AppendNonce wrote.
func DecodeNonce(b []byte) (*Nonce, error) {
	n, format := new(Nonce), uint64(0)
	err := fields(bytes.Clone(b), func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			format = fv.v
		case data | 2:
			return fv.id(&n.ID)
		case data | 3:
			return fv.text(&n.Member)
		case number | 4:
			n.Term = int64(fv.v)
		case number | 5:
			n.At = trigger.Instant(fv.v)
		case data | 6:
			return fv.text(&n.Group)
		default:
			return fv.unknown("nonce")
		}
		return nil
	})
	if err == nil {
		err = checkFormat(format, uint64(Newest))
	}
	if err != nil {
		return nil, fmt.Errorf("decode nonce: %w", err)
	}
	return n, nil
}
