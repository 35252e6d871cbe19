package statestore

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

var goldenTimer = trigger.Timer{
	Due: 1_790_000_000_000, Priority: trigger.Low, Kind: trigger.TimerLive,
	Occurrence: "2026-11-20T09:00",
}

// TestGoldenBytes pins the bytes of format 1, because existing disks have them.
func TestGoldenBytes(t *testing.T) {
	const key, due = "acme/rent", 1_790_000_000_000
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{
			"d", appendTimerKey(nil, goldenTimer, key),
			"64 000001a0c4506c00 02 61636d652f72656e74 00 02 323032362d31312d32305430393a3030",
		},
		{
			"d of a series", appendTimerKey(nil, trigger.Timer{Due: 1, Kind: trigger.TimerSeries}, "a"),
			"64 0000000000000001 00 61 00 01",
		},
		{
			"d before 1970", appendTimerKey(nil, trigger.Timer{Due: -1, Kind: trigger.TimerSeries}, "a"),
			"64 0000000000000000 00 61 00 01",
		},
		{"m", metaKey("progress"), "6d 2f 70726f6772657373"},
		{"t", appendStateKey(nil, key), "74 61636d652f72656e74"},
		{
			"u", appendUserKey(nil, "acme", "u_81", due, key),
			"75 61636d65 00 755f3831 00 000001a0c4506c00 61636d652f72656e74",
		},
		{
			"u without due", appendUserKey(nil, "default", "u", NoDue, "a"),
			"75 64656661756c74 00 75 00 ffffffffffffffff 61",
		},
		{"u escaped", appendUserKey(nil, "t", "\x00\x01\x02", 0, "a"), "75 74 00 0102 0101 02 00 0000000000000000 61"},
		{"y", appendDoneKey(nil, due, key), "79 000001a0c4506c00 61636d652f72656e74"},
		{"z", appendZoneKey(nil, "Europe/Berlin", key), "7a 4575726f70652f4265726c696e 00 61636d652f72656e74"},
		{
			"pointer to d", pointer{home: homeDue, timer: goldenTimer}.appendTo(nil),
			"02 80d8c1a28c34 02 02 323032362d31312d32305430393a3030",
		},
		{"pointer to y", pointer{home: homeDone, forgetAt: due}.appendTo(nil), "03 80d8c1a28c34"},
		{"pointer with state", pointer{home: homeHere, state: []byte("st")}.appendTo(nil), "01 7374"},
		{"counts", counts{pending: 300, done: 1}.encode(), "ac02 01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(c.got, want) {
				t.Errorf("got  %x\nwant %x", c.got, want)
			}
		})
	}
}

// TestRefOrder checks that the bytes of d sort as (due, priority, key, kind, occurrence).
func TestRefOrder(t *testing.T) {
	const series, live = trigger.TimerSeries, trigger.TimerLive
	type in struct {
		timer trigger.Timer
		key   trigger.Key
	}
	ascending := []in{
		{trigger.Timer{Due: 255, Priority: trigger.Low, Kind: live, Occurrence: "z"}, "z"},
		{trigger.Timer{Due: 256, Priority: trigger.High, Kind: live, Occurrence: "z"}, "z"},
		{trigger.Timer{Due: 256, Priority: trigger.Normal, Kind: live, Occurrence: "z"}, "a"},
		{trigger.Timer{Due: 256, Priority: trigger.Normal, Kind: series, Occurrence: "z"}, "ab"},
		{trigger.Timer{Due: 256, Priority: trigger.Normal, Kind: live, Occurrence: ""}, "ab"},
		{trigger.Timer{Due: 256, Priority: trigger.Normal, Kind: live, Occurrence: "a"}, "ab"},
		{trigger.Timer{Due: 1 << 40, Kind: series}, "a"},
	}
	for i := 1; i < len(ascending); i++ {
		a, b := ascending[i-1], ascending[i]
		if bytes.Compare(appendTimerKey(nil, a.timer, a.key), appendTimerKey(nil, b.timer, b.key)) >= 0 {
			t.Errorf("%v is not before %v", a, b)
		}
	}
}

func TestParseRefRefuses(t *testing.T) {
	for _, c := range []struct{ name, ref string }{
		{"empty", ""},
		{"no end of key", "\x01abc"},
		{"no key", "\x01\x00\x01"},
		{"no kind", "\x01abc\x00"},
		{"unknown kind", "\x01abc\x00\x03"},
		{"unknown priority", "\x03abc\x00\x01"},
		{"key too long", "\x01" + strings.Repeat("k", 256) + "\x00\x01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, key, _, _, ok := ParseRef(c.ref); ok {
				t.Errorf("ParseRef(%q) = key %q", c.ref, key)
			}
		})
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add(Ref(goldenTimer, "acme/rent"))
	f.Add(Ref(trigger.Timer{Kind: trigger.TimerSeries}, "a"))
	f.Add("\x01\x00\x01")
	f.Fuzz(func(t *testing.T, ref string) {
		prio, key, kind, occurrence, ok := ParseRef(ref)
		if !ok {
			return
		}
		second := Ref(trigger.Timer{Priority: prio, Kind: kind, Occurrence: occurrence}, key)
		if second != ref {
			t.Errorf("ParseRef(%q) writes %q", ref, second)
		}
		k := appendDueKey(nil, 77, ref)
		if due, back, ok := splitDueKey(k); due != 77 || string(back) != ref || !ok {
			t.Errorf("splitDueKey(%x) = %d %q %v", k, due, back, ok)
		}
	})
}

func FuzzPointer(f *testing.F) {
	f.Add(pointer{home: homeDue, timer: goldenTimer}.appendTo(nil))
	f.Add(pointer{home: homeDone, forgetAt: 1}.appendTo(nil))
	f.Add(pointer{home: homeHere, state: []byte("state")}.appendTo(nil))
	f.Add([]byte{2, 0x80, 0x00, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := parsePointer(b)
		if !ok {
			return
		}
		if second := p.appendTo(nil); !bytes.Equal(second, b) {
			t.Errorf("parsePointer(%x) writes %x", b, second)
		}
	})
}

func FuzzCounts(f *testing.F) {
	f.Add([]byte{0xac, 2, 1})
	f.Add([]byte{0x80, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := parseCounts(b); ok && !bytes.Equal(c.encode(), b) {
			t.Errorf("parseCounts(%x) writes %x", b, c.encode())
		}
	})
}

// FuzzName checks that an escaped name has no end byte inside, decodes to the same name, and
// differs from every other.
func FuzzName(f *testing.F) {
	f.Add("user", "us\x00er")
	f.Add("\x01\x02", "\x00")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := appendName(nil, a), appendName(nil, b)
		if i := slices.Index(x, keyEnd); i != len(x)-1 {
			t.Errorf("%q is %x", a, x)
		}
		if back := unname(string(x[:len(x)-1])); back != a {
			t.Errorf("%q comes back as %q", a, back)
		}
		if a != b && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
			t.Errorf("%q and %q are %x and %x", a, b, x, y)
		}
	})
}
