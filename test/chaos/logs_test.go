package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/check"
)

// A violation that says a transaction was not what it should have been is worth little without the brokers' own
// account: it cannot be had once the test has ended.

// around is how many offsets before and behind a violation's records are shown.
const around = 6

// showLogs says what brokers and recording have where a violation is.
func (w *world) showLogs(h *check.History, v *check.Violation) {
	w.t.Helper()
	var b strings.Builder
	for _, location := range v.Records {
		topic, partition, offset, err := parseLocation(location)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "around %s\n  in the recording\n", location)
		for _, f := range h.Files() {
			if f.Topic == topic && f.Partition == partition {
				_ = f.Records(func(r *check.Record) {
					if near(offset, r.Offset, r.Offset) {
						fmt.Fprintf(&b, "    %d %s producer %d epoch %d, %s\n",
							r.Offset, kindNames[r.Kind], r.ProducerID, r.Epoch, moment(r.Timestamp))
					}
				})
			}
		}
		for n := range nodes {
			fmt.Fprintf(&b, "  on broker %d\n", n+1)
			dir := filepath.Join(w.kafka.Dir(n+1), "data", fmt.Sprintf("%s-%d", topic, partition))
			segments, _ := filepath.Glob(filepath.Join(dir, "*.log"))
			for _, segment := range segments {
				all, err := os.ReadFile(segment)
				if err != nil {
					fmt.Fprintf(&b, "    %v\n", err)
				}
				b.WriteString(batchesNear(all, offset))
			}
		}
	}
	if b.Len() > 0 {
		w.t.Logf("%s", &b)
	}
}

var kindNames = map[check.Kind]string{
	check.Data: "plain", check.InTxn: "transactional", check.CommitMarker: "COMMIT", check.AbortMarker: "ABORT",
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }

func near(offset, first, last int64) bool { return last >= offset-around && first <= offset+around }

// parseLocation splits topic/partition/offset.
func parseLocation(location string) (topic string, partition int32, offset int64, err error) {
	part := strings.Split(location, "/")
	if len(part) != 3 {
		return "", 0, 0, fmt.Errorf("%q is not topic/partition/offset", location)
	}
	n, err := strconv.ParseInt(part[1], 10, 32)
	if err == nil {
		offset, err = strconv.ParseInt(part[2], 10, 64)
	}
	return part[0], int32(n), offset, err
}

// batchesNear lists the batches of a segment that are near an offset: a line each.
func batchesNear(segment []byte, offset int64) string {
	var b strings.Builder
	const head = 12 // base offset and length
	for len(segment) >= head {
		size := head + int(int32(binary.BigEndian.Uint32(segment[8:])))
		if size < head+1 || size > len(segment) {
			fmt.Fprintf(&b, "    the segment ends within a batch: %d of %d bytes\n", len(segment), size)
			break
		}
		var batch kmsg.RecordBatch
		if err := batch.ReadFrom(segment[:size]); err != nil {
			fmt.Fprintf(&b, "    a batch cannot be read: %v\n", err)
		}
		segment = segment[size:]
		last := batch.FirstOffset + int64(batch.LastOffsetDelta)
		if !near(offset, batch.FirstOffset, last) {
			continue
		}
		kind := kindNames[check.Data]
		switch {
		case batch.Attributes&0x20 != 0:
			kind = markerOf(batch.Records)
		case batch.Attributes&0x10 != 0:
			kind = kindNames[check.InTxn]
		}
		fmt.Fprintf(&b, "    %d-%d %s producer %d epoch %d sequence %d, leader epoch %d, %s\n", batch.FirstOffset, last,
			kind, batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence, batch.PartitionLeaderEpoch,
			moment(batch.MaxTimestamp))
	}
	return b.String()
}

// markerOf is the kind of a control batch.
func markerOf(records []byte) string {
	r := kbin.Reader{Src: records}
	r.Varint()  // length
	r.Int8()    // attributes
	r.Varlong() // timestamp
	r.Varint()  // offset
	var key kmsg.ControlRecordKey
	if err := key.ReadFrom(r.VarintBytes()); err != nil {
		return "CONTROL"
	}
	switch key.Type {
	case kmsg.ControlRecordKeyTypeAbort:
		return kindNames[check.AbortMarker]
	case kmsg.ControlRecordKeyTypeCommit:
		return kindNames[check.CommitMarker]
	}
	return fmt.Sprint("CONTROL ", key.Type)
}

// markersLost are lines of a broker's log that say that a marker was not written.
var markersLost = regexp.MustCompile(`find leader endpoint|permanently failed|cancel sending|dead queue|` +
	`Replaced an existing pending|Truncating .*-[0-9]+ .* to offset|InvalidTxnState`)

// showMarkersLost shows these lines.
func (w *world) showMarkersLost() {
	w.t.Helper()
	for n := range nodes {
		files, _ := filepath.Glob(filepath.Join(w.kafka.Dir(n+1), "logs", "server*.log"))
		var lines [][]byte
		for _, file := range files {
			all, _ := os.ReadFile(file)
			for line := range bytes.Lines(all) {
				if markersLost.Match(line) {
					lines = append(lines, line)
				}
			}
		}
		if n := len(lines) - 60; n > 0 {
			lines = lines[n:]
		}
		w.t.Logf("broker %d says of markers\n%s", n+1, bytes.Join(lines, nil))
	}
}

// TestBatchesNear reads a batch and a marker as a broker writes them.
func TestBatchesNear(t *testing.T) {
	key := (&kmsg.ControlRecordKey{Type: kmsg.ControlRecordKeyTypeAbort}).AppendTo(nil)
	record := []byte{0, 0, 0}
	record = kbin.AppendVarintBytes(record, key)
	record = append(record, 0, 0) // no value, no headers
	record = append(kbin.AppendVarint(nil, int32(len(record))), record...)
	var segment []byte
	for _, b := range []kmsg.RecordBatch{
		{FirstOffset: 10, LastOffsetDelta: 2, NumRecords: 3, Attributes: 0x10, ProducerID: 7, ProducerEpoch: 5},
		{FirstOffset: 13, NumRecords: 1, Attributes: 0x30, ProducerID: 7, ProducerEpoch: 6, Records: record},
		{FirstOffset: 100, NumRecords: 1},
	} {
		b.Magic = 2
		b.Length = int32(len(b.AppendTo(nil)) - 12)
		segment = b.AppendTo(segment)
	}
	want := "    10-12 transactional producer 7 epoch 5 sequence 0, leader epoch 0, 00:00:00.000\n" +
		"    13-13 ABORT producer 7 epoch 6 sequence 0, leader epoch 0, 00:00:00.000\n"
	if got := batchesNear(segment, 12); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
