package broker

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

// sampleOutcome uses every field.
var sampleOutcome = outcome{
	kind: kindCommit, pid: 0x0102030405060708, epoch: 9, bumps: true, at: 1_800_000_000_000,
	parts:   []tail{{"waterclock.state", 3, 1000, 70000}, {"due.push", 0, 0, 0}},
	offsets: []groupOffset{{"g", "in", 1, 300, -1, ptr("m")}, {"g", "in", 2, 0, 5, nil}},
}

// goldenOutcomes is what version 1 wrote; it is read for ever.
const goldenOutcomes = "57434f5554434d01" + // magic, version 1
	"0000004e" + "8cc4fdbf" + // length, checksum
	"01" + "01" + "0102030405060708" + "0009" + "000001a3185c5000" + // commit, bumps, producer, epoch, time
	// waterclock.state/3 ends at 1000.dat, byte 70000
	"02" + "10" + "7761746572636c6f636b2e7374617465" + "03" + "e807" + "f0a204" +
	"08" + "6475652e70757368" + "00" + "00" + "00" + // due.push/0 at 0.dat, byte 0
	"02" + "0167" + "02696e" + "01" + "d804" + "01" + "01" + "016d" + // g: in/1 at 300, no leader epoch, metadata m
	"0167" + "02696e" + "02" + "00" + "0a" + "00" + // g: in/2 at 0, leader epoch 5, no metadata
	"00000016" + "339affc5" +
	"02" + "00" + "0102030405060708" + "0009" + "000001a3185c5001" + "00" + "00" // abort

func TestGoldenOutcomes(t *testing.T) {
	abort := outcome{kind: kindAbort, pid: sampleOutcome.pid, epoch: 9, at: 1_800_000_000_001}
	raw := abort.appendTo(sampleOutcome.appendTo([]byte(outcomeMagic)))
	if got := hex.EncodeToString(raw); got != goldenOutcomes {
		t.Errorf("written\n%s, want\n%s", got, goldenOutcomes)
	}
	golden, _ := hex.DecodeString(goldenOutcomes)
	list, valid, err := readOutcomes(golden)
	if err != nil || valid != len(golden) || !reflect.DeepEqual(list, []outcome{sampleOutcome, abort}) {
		t.Errorf("read %+v, %d of %d bytes, %v", list, valid, len(golden), err)
	}
}

// goldenMarks is what came to version 1 later: where a transaction began, and that it was aborted.
const goldenMarks = "57434f5554434d01" + // magic, version 1
	"00000016" + "cace830f" + "03" + "00" + "0102030405060708" + "0009" + "000001a3185c5000" + "00" + "00" + // begun
	"00000016" + "fe0aee8c" + "04" + "00" + "0102030405060708" + "0009" + "000001a3185c5001" + "00" + "00" // aborted

func TestGoldenMarks(t *testing.T) {
	list := []outcome{
		{kind: kindBegun, pid: sampleOutcome.pid, epoch: 9, at: 1_800_000_000_000},
		{kind: kindAborted, pid: sampleOutcome.pid, epoch: 9, at: 1_800_000_000_001},
	}
	raw := []byte(outcomeMagic)
	for _, o := range list {
		raw = o.appendTo(raw)
	}
	if got := hex.EncodeToString(raw); got != goldenMarks {
		t.Errorf("written\n%s, want\n%s", got, goldenMarks)
	}
	golden, _ := hex.DecodeString(goldenMarks)
	if read, valid, err := readOutcomes(golden); err != nil || valid != len(golden) || !reflect.DeepEqual(read, list) {
		t.Errorf("read %+v, %d of %d bytes, %v", read, valid, len(golden), err)
	}
}

func TestGoldenVersion(t *testing.T) {
	const want = "waterclock-broker 2 kfake 1 v0.0.0-20260918054303-01f206a7e32c\n"
	if got := versionText(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, text := range []string{want, "waterclock-broker 1 kfake 1 v0.0.0-20260918054303-01f206a7e32c\n"} {
		if err := parseVersion(text, "dir"); err != nil {
			t.Error(err)
		}
	}
}

// goldenJournal is what version 1 wrote; it is read for ever.
// magic, run 7, nonce, checksum
const goldenJournal = "57434a4f55524e01" + "0000000000000007" + "0102030405060708" + "0ce1f440" +
	"0000000b" + "42c6022b" + "05612e6c6f67" + "00" + "30313233" + // length, checksum, a.log from byte 0: 0123
	"0000000f" + "55f87e8c" + "05612e6c6f67" + "02" + "3233343536373839" // a.log from byte 2: 23456789

func TestGoldenJournal(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "a.log")
	if err := os.WriteFile(log, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j := &journal{root: dir, run: journalRun{7, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}}}
	j.buf = j.run.appendTo(nil)
	for _, upTo := range []int64{4, 100} {
		if _, err := j.capture(f, upTo/50, upTo); err != nil { // bytes 0 to 3, and 2 to 9
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(j.buf); got != goldenJournal {
		t.Errorf("written\n%s, want\n%s", got, goldenJournal)
	}
	golden, _ := hex.DecodeString(goldenJournal)
	run, list, ok, err := readJournal(golden)
	want := []extent{{"a.log", 0, []byte("0123")}, {"a.log", 2, []byte("23456789")}}
	if err != nil || !ok || run != j.run || !reflect.DeepEqual(list, want) {
		t.Errorf("read run %+v, %v, %v, %v", run, list, ok, err)
	}
}

// TestKfakeIsPinned: we lean on kfake's files, so its version is ours to choose.
func TestKfakeIsPinned(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "github.com/twmb/franz-go/pkg/kfake").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(out)); got != KfakeVersion {
		t.Errorf("go.mod has kfake %s and we know the files of %s: read persist.go anew, run every test here, then "+
			"change KfakeVersion", got, KfakeVersion)
	}
}

func TestMarkersAndPlaceholders(t *testing.T) {
	m := marker(5, 0, 7, 2, true, 1000)
	if b, err := firstBatch(m); err != nil || len(b) != len(m) || !b.control() || !b.commits() || b.end() != 6 {
		t.Errorf("COMMIT marker %x: %v", []byte(m), err)
	}
	if a := marker(5, 0, 7, 2, false, 1000); a.commits() {
		t.Errorf("ABORT marker %x commits", []byte(a))
	}
	p := placeholder(9, 1, 1000)
	if b, err := firstBatch(p); err != nil || len(b) != batchHeader || b.end() != 9 || b.count() != 0 {
		t.Errorf("placeholder %x: %v", []byte(p), err)
	}
}

func TestStampAndPublish(t *testing.T) {
	b := rawBatch(rawRecord(0, []byte("k"), []byte("v")))
	b.stamp(4242)
	two := append(append([]byte(nil), b...), rawBatch(rawRecord(0, []byte("k"), nil))...)
	publish(two)
	for i, want := range []struct {
		attrs uint16
		max   int64
	}{{attrAppendTime, 4242}, {0, 2000}} {
		got, err := firstBatch(two)
		if err != nil || got.attrs() != want.attrs || got.maxTime() != want.max {
			t.Errorf("batch %d: attributes %#x, time %d, %v", i, got.attrs(), got.maxTime(), err)
		}
		two = two[len(got):]
	}
}

func FuzzOutcomes(f *testing.F) {
	golden, _ := hex.DecodeString(goldenOutcomes)
	f.Add(golden)
	f.Add([]byte(outcomeMagic))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, valid, err := readOutcomes(raw)
		if err != nil || valid == 0 {
			return
		}
		second := []byte(outcomeMagic)
		for _, o := range list {
			second = o.appendTo(second)
		}
		back, _, err := readOutcomes(second)
		if err != nil || !reflect.DeepEqual(back, list) {
			t.Fatalf("%v: %+v became %+v", err, list, back)
		}
	})
}

func FuzzJournal(f *testing.F) {
	golden, _ := hex.DecodeString(goldenJournal)
	f.Add(golden)
	f.Add(golden[:journalHeader])
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, list, _, err := readJournal(raw)
		for _, e := range list {
			if !filepath.IsLocal(e.path) || e.at < 0 || len(e.data) == 0 {
				t.Fatalf("%v: %+v", err, e)
			}
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add([]byte(rawBatch(rawRecord(0, []byte("k"), []byte("v")), rawRecord(1, nil, nil))), true)
	f.Add([]byte(marker(1, 2, 3, 4, true, 5)), false)
	f.Add([]byte(placeholder(9, 1, 1)), false)
	f.Fuzz(func(t *testing.T, raw []byte, keyed bool) {
		publish(bytes.Clone(raw))
		if len(raw) >= batchHeader {
			batch(raw).reseal() // else the checksum keeps the fuzzer out
		}
		b, err := firstBatch(raw)
		if err != nil {
			return
		}
		b.commits()
		if b.attrs()&attrCodec == 0 {
			b.check(keyed)
		}
		b.stamp(1)
		if _, err := firstBatch(b); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzKfakeLogs(f *testing.F) {
	raw, _ := appendLogEntry(nil, pidEntry{Type: "init", PID: 5, Epoch: 1, TxID: "x", Commit: ptr(true)})
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		entries, valid, err := readLog[pidEntry](raw)
		if err == nil && valid > len(raw) {
			t.Fatalf("%d of %d bytes", valid, len(raw))
		}
		readPids(entries)
	})
}

func FuzzFloors(f *testing.F) {
	f.Add([]byte(`{"version":1,"floors":[{"topic_id":"AAAAAAAAAAAAAAAAAAAAAA==","partition":0,"start":5,"end":7}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := decodeFloors(raw)
		for _, fl := range list {
			if err == nil && (fl.Start < 0 || fl.Partition < 0) {
				t.Fatalf("%+v", fl)
			}
		}
	})
}

// TestLogFrameIsKfakes: an entry as the pinned kfake writes it.
func TestLogFrameIsKfakes(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	cl := client(t, b)
	if _, _, err := cl.ProducerID(testContext(t)); err != nil {
		t.Fatal(err)
	}
	entries, torn, err := loadLog[pidEntry](b.pidsLog().path)
	if err != nil || torn || len(entries) != 1 || entries[0].Type != "init" {
		t.Errorf("%+v, torn %v, %v", entries, torn, err)
	}
	if e := fmt.Sprintf("%x", appendIndexEntry(nil, 3, 0x0102, true)); len(e) != 2*indexEntry {
		t.Errorf("index entry %s", e)
	}
}
