package preferences

import (
	"testing"
	"time"
)

// TestLedger tests how earlier claims affect a message. preferencestest tests stores with whole
// lists of claims; a store may leave out claims that do not matter.
func TestLedger(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	limits := Limits{Window: time.Hour, Caps: []Cap{{Most: 2, Within: time.Hour}}}
	claim := func(occurrence, id, kind string, ago time.Duration) Claim {
		return Claim{Message: Message{ID: occurrence + id, Occurrence: occurrence, Type: kind}, At: at.Add(-ago)}
	}
	a, b := claim("a", "#0", "x", time.Minute), claim("b", "#0", "y", time.Minute)
	old, newer := claim("c", "#0", "z", time.Hour), claim("d", "#0", "z", time.Hour-time.Millisecond)
	for _, c := range []struct {
		name string
		sent []Claim
		m    Message
		want string
	}{
		{"nothing before", nil, Message{ID: "n", Occurrence: "n", Type: "x"}, ""},
		{"the same type", []Claim{a}, Message{ID: "n", Occurrence: "n", Type: "x"}, CodeDuplicate},
		{"another type", []Claim{a}, Message{ID: "n", Occurrence: "n", Type: "z"}, ""},
		{"a step of the same occurrence", []Claim{a}, Message{ID: "a#1", Occurrence: "a", Type: "x"}, ""},
		{"it was asked for", []Claim{a}, Message{ID: "n", Occurrence: "n", Type: "x", Asked: true}, ""},
		{"as many as may be", []Claim{a, b}, Message{ID: "n", Occurrence: "n"}, CodeCapped},
		{"as many, priority high", []Claim{a, b}, Message{ID: "n", Occurrence: "n", High: true}, ""},
		{"one, listed twice", []Claim{a, a}, Message{ID: "n", Occurrence: "n"}, ""},
		{"one is an hour ago", []Claim{a, old}, Message{ID: "n", Occurrence: "n"}, ""},
		{"the same type an hour ago", []Claim{old}, Message{ID: "n", Occurrence: "n", Type: "z"}, ""},
		{"a millisecond less", []Claim{newer}, Message{ID: "n", Occurrence: "n", Type: "z"}, CodeDuplicate},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Ledger{Sent: c.sent}
			for range 2 { // the second attempt has the decision of the first
				if got := g.Admit(limits, at, c.m); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
			want := len(c.sent)
			if c.want == "" {
				want++
			}
			if len(g.Sent) != want {
				t.Errorf("%d claims count, want %d", len(g.Sent), want)
			}
		})
	}
}
