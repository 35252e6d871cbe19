package broker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
)

// kfake keeps groups and producers in logs of JSON entries, framed
//
//	length 4 | crc-32c of the rest 4 | version 2 | JSON
//
// little-endian, the length counting version and JSON. It stops reading at a
// torn frame and then appends behind it, so what it writes after such a crash
// is lost at the next start; we cut the torn frame off first.

const logFrame = 10

func appendLogEntry(dst []byte, entry any) ([]byte, error) {
	body, err := json.Marshal(entry)
	if err != nil {
		return nil, err
	}
	at := len(dst)
	dst = append(dst, make([]byte, logFrame)...)
	dst = append(dst, body...)
	f := dst[at:]
	binary.LittleEndian.PutUint32(f, uint32(2+len(body)))
	binary.LittleEndian.PutUint16(f[8:], kfakeFormat)
	binary.LittleEndian.PutUint32(f[4:], crc32.Checksum(f[8:], crcTable))
	return dst, nil
}

// readLog decodes the whole entries of a log and says where they end.
func readLog[T any](raw []byte) (entries []T, valid int, err error) {
	for {
		body := nextLogEntry(raw[valid:])
		if body == nil {
			return entries, valid, nil
		}
		if v := binary.LittleEndian.Uint16(body); v != kfakeFormat {
			return nil, valid, fmt.Errorf("entry at byte %d is in kfake format %d, not %d", valid, v, kfakeFormat)
		}
		var e T
		if err := json.Unmarshal(body[2:], &e); err != nil {
			return nil, valid, fmt.Errorf("entry at byte %d: %w", valid, err)
		}
		entries = append(entries, e)
		valid += logFrame - 2 + len(body)
	}
}

func nextLogEntry(raw []byte) []byte {
	if len(raw) < logFrame {
		return nil
	}
	n := binary.LittleEndian.Uint32(raw)
	if n < 2 || uint64(n) > uint64(len(raw)-8) {
		return nil
	}
	body := raw[8 : 8+int(n)]
	if crc32.Checksum(body, crcTable) != binary.LittleEndian.Uint32(raw[4:]) {
		return nil
	}
	return body
}

// loadLog reads a log; a file that is missing is empty.
func loadLog[T any](path string) (entries []T, torn bool, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	entries, valid, err := readLog[T](raw)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	return entries, valid < len(raw), nil
}

func storeLog[T any](path string, entries []T) error {
	var raw []byte
	var err error
	for _, e := range entries {
		if raw, err = appendLogEntry(raw, e); err != nil {
			return err
		}
	}
	return replaceFile(path, raw)
}

// pidEntry is one entry of pids.log.
type pidEntry struct {
	Type    string `json:"type"` // init, endtx, timeout
	PID     int64  `json:"pid"`
	Epoch   int16  `json:"epoch"`
	TxID    string `json:"txid,omitempty"`
	Timeout int32  `json:"timeout,omitempty"`
	Commit  *bool  `json:"commit,omitempty"`
}

// groupEntry is one entry of groups.log; we write commits only, and keep the
// others as they are.
type groupEntry struct {
	Type       string  `json:"type"`
	Group      string  `json:"g"`
	Topic      string  `json:"t,omitempty"`
	Part       int32   `json:"p,omitempty"`
	Offset     int64   `json:"o,omitempty"`
	Epoch      int32   `json:"e,omitempty"`
	Metadata   *string `json:"m,omitempty"`
	LastCommit *int64  `json:"lc,omitempty"`

	GroupType  string `json:"typ,omitempty"`
	ProtoType  string `json:"pt,omitempty"`
	Protocol   string `json:"pr,omitempty"`
	Generation int32  `json:"gen,omitempty"`
	Assignor   string `json:"assignor,omitempty"`
	GroupEpoch int32  `json:"epoch848,omitempty"`
	InstanceID string `json:"instance,omitempty"`
	MemberID   string `json:"member,omitempty"`
}

func (e groupEntry) key() offsetKey { return offsetKey{e.Group, e.Topic, e.Part} }

func (e groupEntry) offset() groupOffset {
	return groupOffset{e.Group, e.Topic, e.Part, e.Offset, e.Epoch, e.Metadata}
}

// behindIts finds the commit that kfake may have written e for, the first of some in their order, and returns those
// behind it.
func (e groupEntry) behindIts(commits []groupEntry) ([]groupEntry, bool) {
	for i, c := range commits {
		rest := commits[i+1:]
		nextWasBefore := len(rest) > 0 && *c.LastCommit <= *rest[0].LastCommit && *rest[0].LastCommit < *e.LastCommit
		if e.offset().equal(c.offset()) && *c.LastCommit <= *e.LastCommit && !nextWasBefore {
			return rest, true
		}
	}
	return nil, false
}

// topicsJSON is topics.json, which kfake replaces whole.
type topicsJSON struct {
	Version int         `json:"version"`
	Topics  []topicJSON `json:"topics"`
}

type topicJSON struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"` // base64
	Partitions int               `json:"partitions"`
	Replicas   int               `json:"replicas"`
	Configs    map[string]string `json:"configs,omitempty"`
}

// snapshotJSON is a partition's snapshot.json. kfake believes it if it names
// exactly the segments that are there, so we write it before every start:
// kfake's own repair then has nothing to do.
type snapshotJSON struct {
	Version          int           `json:"version"`
	HighWatermark    int64         `json:"high_watermark"`
	LastStableOffset int64         `json:"last_stable_offset"`
	LogStartOffset   int64         `json:"log_start_offset"`
	Epoch            int32         `json:"epoch"`
	MaxTimestamp     int64         `json:"max_timestamp"`
	CreatedAt        string        `json:"created_at"`
	AbortedTxns      []abortedJSON `json:"aborted_txns,omitempty"`
	Segments         []segmentJSON `json:"segments"`
}

type abortedJSON struct {
	ProducerID  int64 `json:"producer_id"`
	FirstOffset int64 `json:"first_offset"`
	LastOffset  int64 `json:"last_offset"`
}

type segmentJSON struct {
	BaseOffset int64 `json:"base_offset"`
	Size       int64 `json:"size"`
	MinEpoch   int32 `json:"min_epoch,omitempty"`
	MaxEpoch   int32 `json:"max_epoch,omitempty"`
}

// seqWindowsJSON is seq_windows.json.
type seqWindowsJSON struct {
	Version int             `json:"version"`
	Windows []seqWindowJSON `json:"windows"`
}

type seqWindowJSON struct {
	PID     int64           `json:"pid"`
	Topic   string          `json:"topic"`
	Part    int32           `json:"partition"`
	Entries [5]seqEntryJSON `json:"entries"`
	Count   uint8           `json:"count"`
	At      uint8           `json:"at"`
	Epoch   int16           `json:"epoch"`
	Seen    bool            `json:"seen,omitempty"`
	NextSeq int32           `json:"next_seq,omitempty"`
}

type seqEntryJSON struct {
	FirstSeq int32 `json:"first_seq"`
	NextSeq  int32 `json:"next_seq"`
	Offset   int64 `json:"offset"`
}

func (w *seqWindow) json(pid int64, topic string, partition int32) seqWindowJSON {
	j := seqWindowJSON{
		PID: pid, Topic: topic, Part: partition,
		Count: uint8(len(w.entries)), At: uint8(len(w.entries) % 5),
		Epoch: w.epoch, Seen: true, NextSeq: w.next,
	}
	for i, e := range w.entries {
		j.Entries[i] = seqEntryJSON{e.first, e.next, e.offset}
	}
	return j
}
