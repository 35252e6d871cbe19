package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Meta is the content of a dump's file dump.json: what was recorded, and the offsets.
type Meta struct {
	Format     int        `json:"format"` // 1
	Prefix     string     `json:"prefix"` // prefix of the topics' names, waterclock.
	Partitions int32      `json:"partitions"`
	Files      []FileMeta `json:"files"`
}

// FileMeta describes a recorded topic partition.
type FileMeta struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id,omitempty"` // as Kafka names it; "" in dumps of before, and of other tests
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`    // first offset of the log when the recording began
	End       int64  `json:"end"`      // every record below it was recorded
	Stable    int64  `json:"stable"`   // every transaction below it has ended
	AskedAt   int64  `json:"asked_at"` // when End was fetched, by the recorder's clock, ms since 1970 UTC
}

const metaName = "dump.json"

func fileName(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition)) + ".wcdump"
}

// File is one topic partition of a history, in memory or memory-mapped.
type File struct {
	FileMeta
	bytes []byte // frames, without the preamble
	kind  topicKind
}

// NewFile makes an empty topic partition in memory.
func NewFile(m FileMeta) *File { return &File{FileMeta: m} }

// Append adds a record. Offsets must ascend.
func (f *File) Append(r *Record) { f.bytes = AppendFrame(f.bytes, r) }

// Records calls f for every record and marker, in order. The record is valid until f returns.
func (f *File) Records(each func(*Record)) error {
	var r Record
	for pos := 0; pos < len(f.bytes); {
		body, next, err := frameAt(f.bytes, pos)
		if err == nil {
			err = decodeBody(body, &r)
		}
		if err != nil {
			return err
		}
		pos = next
		each(&r)
	}
	return nil
}

// Files returns the topic partitions of a history.
func (h *History) Files() []*File { return h.files }

// History is the input of Verify.
type History struct {
	Meta
	files []*File
	close []func() error
}

// NewHistory makes a history of files in memory.
func NewHistory(prefix string, partitions int32, files []*File) *History {
	h := &History{Meta: Meta{Format: formatVersion, Prefix: prefix, Partitions: partitions}, files: files}
	h.order()
	return h
}

// OpenDump opens a directory that `waterclock events record` wrote.
func OpenDump(dir string) (*History, error) {
	m, err := readMeta(dir)
	if err != nil {
		return nil, err
	}
	h := &History{Meta: *m}
	for _, fm := range m.Files {
		name := filepath.Join(dir, fileName(fm.Topic, fm.Partition))
		b, unmap, err := mapFile(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open dump: %w", err), h.Close())
		}
		h.close = append(h.close, unmap)
		body, err := afterPreamble(b, fm.Topic, fm.Partition)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open dump: %s: %w", name, err), h.Close())
		}
		h.files = append(h.files, &File{FileMeta: fm, bytes: body})
	}
	h.order()
	return h, nil
}

// Close unmaps the files.
func (h *History) Close() error {
	var all error
	for _, f := range h.close {
		all = errors.Join(all, f())
	}
	h.close = nil
	return all
}

// write replaces dump.json atomically. After a kill, the file is the old one or the new one.
func (m *Meta) write(dir string) error {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	name := filepath.Join(dir, metaName)
	if err := os.WriteFile(name+".new", append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	return nil
}

// WriteDump writes a history into a directory.
func WriteDump(dir string, h *History) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write dump: %w", err)
	}
	m := h.Meta
	for _, f := range h.files {
		m.Files = append(m.Files, f.FileMeta)
		b := append(appendPreamble(nil, f.Topic, f.Partition), f.bytes...)
		if err := os.WriteFile(filepath.Join(dir, fileName(f.Topic, f.Partition)), b, 0o600); err != nil {
			return fmt.Errorf("write dump: %w", err)
		}
	}
	return m.write(dir)
}

var errNoDump = errors.New("is no dump")

func readMeta(dir string) (*Meta, error) {
	b, err := os.ReadFile(filepath.Join(dir, metaName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s %w: it has no %s; make one with: waterclock events record --dir %s", dir, errNoDump,
			metaName, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open dump: %w", err)
	}
	m := &Meta{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("open dump: %s is damaged: %w", filepath.Join(dir, metaName), err)
	}
	if m.Format != formatVersion {
		return nil, fmt.Errorf("the dump has format %d, this program reads %d: use the version that wrote it", m.Format,
			formatVersion)
	}
	if m.Partitions < 1 {
		return nil, fmt.Errorf("open dump: %s says %d partitions", metaName, m.Partitions)
	}
	return m, nil
}

// afterPreamble checks that a file has the topic and partition that its name says, and returns
// the rest.
func afterPreamble(b []byte, topic string, partition int32) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(magic)) {
		return nil, errors.New("not a dump file")
	}
	d := decoder{b: b[len(magic):]}
	if v := d.byte(); v != formatVersion {
		return nil, fmt.Errorf("format %d, this program reads %d", v, formatVersion)
	}
	if got, p := string(d.bytes()), int32(d.uvarint()); d.bad || got != topic || p != partition {
		return nil, fmt.Errorf("it is of %s/%d", got, p)
	}
	return d.b, nil
}

// topicKind is the role of a topic. A trigger's records are read in the order of these values.
type topicKind uint8

const (
	kindCommands topicKind = iota
	kindReceipts
	kindEvents
	kindDue
	kindRejected
	kindDeadLetter
	kindState
	kindControl
	kindWatermarks
	kindOther
)

// kindOf derives the role from the name. An unknown name is the topic of a channel.
func kindOf(prefix, topic string) topicKind {
	name, ours := strings.CutPrefix(topic, prefix)
	if !ours {
		return kindDue
	}
	switch name {
	case "commands":
		return kindCommands
	case "receipts":
		return kindReceipts
	case "events":
		return kindEvents
	case "rejected":
		return kindRejected
	case "dead-letter":
		return kindDeadLetter
	case "state":
		return kindState
	case "control":
		return kindControl
	case "watermarks":
		return kindWatermarks
	}
	if strings.HasPrefix(name, "due.") {
		return kindDue
	}
	return kindOther
}

func (h *History) order() {
	for _, f := range h.files {
		f.kind = kindOf(h.Prefix, f.Topic)
	}
	sort.SliceStable(h.files, func(i, j int) bool {
		a, b := h.files[i], h.files[j]
		if a.kind != b.kind {
			return a.kind < b.kind
		}
		if a.Topic != b.Topic {
			return a.Topic < b.Topic
		}
		return a.Partition < b.Partition
	})
}
