package check

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var goldenRecords = []*Record{
	{
		Offset: 0, Timestamp: 1772884800000, ProducerID: -1, Key: []byte("hold-8c4"),
		Value: []byte(`{"op":"register","delay":"7m"}`),
	},
	{
		Offset: 1, Timestamp: 1772884800001, Kind: InTxn, ProducerID: 7, Epoch: 3, Key: []byte("k"), Value: []byte{},
		Headers: []Header{
			{"ce_id", []byte("k@2026-03-07T12:00:00.000Z#0")}, {"mine", []byte("v")},
		},
	},
	{
		Offset: 2, Timestamp: 1772884800001, Kind: CommitMarker, ProducerID: 7, Epoch: 3, Key: []byte{0, 0, 0, 1},
		Value: []byte{0, 0, 0, 0, 0, 0},
	},
	{Offset: 5, Timestamp: 1772884800002, Kind: AbortMarker, ProducerID: 7, Epoch: 4, Key: []byte{0, 0, 0, 0}},
	{Offset: 6, Timestamp: 1772884800003, ProducerID: -1},
}

// TestGolden pins bytes that must decode for ever.
func TestGolden(t *testing.T) {
	b := appendPreamble(nil, "waterclock.commands", 3)
	for _, r := range goldenRecords {
		b = AppendFrame(b, r)
	}
	name := filepath.Join("testdata", "golden", "v1.hex")
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := hex.Dump(b)
	if got != string(want) {
		t.Errorf("version 1 is written otherwise:\n%s", got)
	}
	body, err := afterPreamble(b, "waterclock.commands", 3)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	if err := (&File{bytes: body}).Records(func(r *Record) {
		want := *goldenRecords[i]
		if want.Headers == nil {
			want.Headers = []Header{}
		}
		have := *r
		have.Headers = append([]Header{}, r.Headers...)
		if !reflect.DeepEqual(have, want) {
			t.Errorf("record %d is %+v, want %+v", i, have, want)
		}
		i++
	}); err != nil {
		t.Fatal(err)
	}
	if i != len(goldenRecords) {
		t.Errorf("%d records, want %d", i, len(goldenRecords))
	}
}

// TestDamage cuts a file anywhere: it must end with its last whole record. A flipped bit must be
// an error, never another record.
func TestDamage(t *testing.T) {
	var b []byte
	var ends []int
	for _, r := range goldenRecords {
		b = AppendFrame(b, r)
		ends = append(ends, len(b))
	}
	for cut := range b {
		ft, err := (&File{bytes: b[:cut]}).readFates()
		whole := 0
		for _, end := range ends {
			if end <= cut {
				whole++
			}
		}
		if err != nil || int(ft.records) != whole {
			t.Fatalf("cut at %d: %v, %d records, want %d", cut, err, ft.records, whole)
		}
	}
	for i := range ends[1] * 8 {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		ft, err := (&File{bytes: c}).readFates()
		if err == nil && ft.records == int64(len(goldenRecords)) {
			t.Fatalf("bit %d is flipped, and nothing is said", i)
		}
	}
}

// A check ends when its caller does not want it any more, before or while it replays.
func TestStop(t *testing.T) {
	errEnough := errors.New("enough")
	for after := range 3 {
		asked := 0
		_, err := Verify(made(3, 1), Options{Stop: func() error {
			if asked++; asked <= after*len(made(3, 1).files) {
				return nil
			}
			return errEnough
		}})
		if !errors.Is(err, errEnough) {
			t.Errorf("stopped after %d times: %v", asked, err)
		}
	}
}

func TestRefusedDumps(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenDump(dir); err == nil || !strings.Contains(err.Error(), "events record") {
		t.Errorf("an empty directory: %v", err)
	}
	h := made(3, 1)
	if err := WriteDump(dir, h); err != nil {
		t.Fatal(err)
	}
	reemitted, err := OpenDump(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reemitted.Close()
	r, err := Verify(reemitted, Options{})
	if err != nil || !r.OK() || r.Triggers != 3 {
		t.Errorf("%v, %+v", err, r)
	}
	if err := os.WriteFile(filepath.Join(dir, metaName), []byte(`{"format":2,"partitions":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDump(dir); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("a newer format: %v", err)
	}
}

// FuzzFrame checks that no input makes the decoder panic, and that decoded records encode to the
// same bytes.
func FuzzFrame(f *testing.F) {
	for _, r := range goldenRecords {
		f.Add(AppendFrame(nil, r))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		body, _, err := frameAt(b, 0)
		if err != nil {
			return
		}
		var r, reemitted Record
		if decodeBody(body, &r) != nil {
			return
		}
		next, _, err := frameAt(AppendFrame(nil, &r), 0)
		if err != nil || decodeBody(next, &reemitted) != nil || !reflect.DeepEqual(r, reemitted) &&
			len(r.Headers)+len(reemitted.Headers) > 0 {
			t.Fatalf("%+v is read back as %+v (%v)", r, reemitted, err)
		}
	})
}

// FuzzCommand, FuzzEvent and FuzzDue check that no record of a producer or an engine makes the
// checker panic.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{
		`{"op":"register","delay":"7m","payload":{"a":[1,"}"]}}`, `{"op":"cancel"}`,
		`{"op":"register","include":["2026-03-04"],"dst":{"gap":"skip"}}`, `{`, `{"op":1}`,
	} {
		f.Add([]byte("k"), []byte(s), "wc-delay", []byte("7m"))
		f.Add([]byte("k"), []byte(s), "h", []byte("v"))
	}
	f.Fuzz(func(_ *testing.T, key, value []byte, name string, header []byte) {
		c := decodeCommand(&Record{Key: key, Value: value, ProducerID: -1, Headers: []Header{{name, header}}}, 0)
		if c.fault == "" && c.op == "register" {
			c.hash()
		}
	})
}

func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"type":"occurrence.fired","seq":2,"payload":{"a":"\"}"},"tags":{"b":"c"},"occurred_at":"2026-03-07T12:00:00.000Z"}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var e event
		_ = decodeEvent(b, &e)
		decodeReceipt(&Record{Value: b}, 0)
	})
}

func FuzzDue(f *testing.F) {
	f.Add("ce_id", []byte("k@2026-03-07T12:00:00.000Z#0"), "ce_wcbasis", []byte("1.2.3.4.5"))
	f.Fuzz(func(_ *testing.T, a string, av []byte, b string, bv []byte) {
		var d due
		_ = decodeDue(&Record{Headers: []Header{{a, av}, {b, bv}, {"ce_subject", []byte("k")}}}, &d)
	})
}

// FuzzRule checks that no rule makes the oracle panic or loop for ever.
func FuzzRule(f *testing.F) {
	for _, s := range []string{
		"FREQ=DAILY;COUNT=3", "cron:*/5 9-17 * * MON-FRI", "every:15m",
		"FREQ=YEARLY;BYWEEKNO=53;BYDAY=SA", "cron:0 0 LW * 5#3",
	} {
		f.Add(s, "2026-03-07T02:30", "America/New_York")
	}
	f.Fuzz(func(_ *testing.T, text, start, zone string) {
		if len(text) > 512 {
			return
		}
		s, err := newSeries(&recurrence{text: text, start: start, zone: zone, gap: "shift", overlap: "first"}, nil,
			1772884800000, nil)
		if err != nil {
			return
		}
		it := s.later(1772884800000)
		for range 3 {
			if _, ok := it.next(); !ok {
				return
			}
		}
	})
}
