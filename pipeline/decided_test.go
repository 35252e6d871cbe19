package pipeline

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// TestDecidedIsBounded: what is remembered for gateways keeps to its bytes and
// its time, the latest last, whatever the triggers hold.
func TestDecidedIsBounded(t *testing.T) {
	const most = 8 << 20
	d := decided{by: map[origin]outcome{}, most: most}
	now := time.Now()
	var p packer
	for i := range int64(50_000) {
		s := &trigger.State{Key: trigger.Key(fmt.Sprintf("tenant/%d", i)), Status: trigger.Pending}
		s.Series.Occurrence = fmt.Sprintf("%0200d", i)
		o, err := p.pack(s, &trigger.Outcome{})
		if err != nil {
			t.Fatal(err)
		}
		d.add([]decision{{origin{0, i}, o}}, now)
		if d.bytes > most {
			t.Fatalf("%d bytes are remembered", d.bytes)
		}
	}
	if _, ok := d.get(origin{0, 49_999}); !ok {
		t.Error("the last outcome is forgotten")
	}
	if n := len(d.by); n != len(d.order) || n < 10_000 {
		t.Errorf("%d outcomes are remembered, %d in order", n, len(d.order))
	}
	d.add([]decision{{origin{0, 50_000}, outcome{}}}, now.Add(keepDecided+time.Second))
	if len(d.by) != 1 || len(d.order) != 1 {
		t.Errorf("%d outcomes are remembered after %v", len(d.by), keepDecided)
	}
}

// TestOutcomesKeepTheirSummary: what a gateway gets is what a command has decided, however
// it is kept, and takes little memory.
func TestOutcomesKeepTheirSummary(t *testing.T) {
	s := &trigger.State{Key: "acme/order-1", Status: trigger.Pending, Revision: 7, Seq: 9, CreatedAt: 1, UpdatedAt: 2}
	s.Series.At, s.Series.Jitter, s.Series.Occurrence = 1_700_000_000_000, 250, "2023-11-14T22:13:20Z"
	s.Series.Local, s.Spec.When.Kind = "2023-11-14T23:13:20[Europe/Berlin]", trigger.WhenInstant
	s.Done = []trigger.Firing{{Occurrence: "o", At: 5, Nominal: 4, Topic: "waterclock.due.default", Partition: 3}}
	rejected := &trigger.Error{Code: trigger.CodeConflict, Field: "if_revision", Msg: "it is 7"}
	var p packer
	for _, c := range []struct {
		name  string
		state *trigger.State
		out   trigger.Outcome
	}{
		{"accepted", s, trigger.Outcome{Facts: []trigger.Fact{{Type: trigger.Registered}, {Type: trigger.Replaced}}}},
		{"refused", s, trigger.Outcome{Rejected: rejected}},
		{"unknown", nil, trigger.Outcome{Rejected: rejected}},
	} {
		o, err := p.pack(c.state, &c.out)
		if err != nil {
			t.Fatal(err)
		}
		d := decided{by: map[origin]outcome{}, most: 1 << 20}
		d.add([]decision{{origin{1, 2}, o}}, time.Now())
		got, ok := d.get(origin{1, 2})
		if !ok || got.Rejected != c.out.Rejected || len(got.Facts) != len(c.out.Facts) {
			t.Fatalf("%s: %+v, %v", c.name, got, ok)
		}
		for i := range got.Facts {
			if got.Facts[i] != c.out.Facts[i].Type {
				t.Errorf("%s: fact %d is %s", c.name, i, got.Facts[i])
			}
		}
		if c.state == nil {
			if got.State != nil {
				t.Errorf("%s: a state %+v of nothing", c.name, got.State)
			}
			continue
		}
		var want trigger.State
		if c.state.Summarize(&want); !reflect.DeepEqual(got.State, &want) {
			t.Errorf("%s:\n %+v is kept of\n %+v", c.name, got.State, want)
		}
		if d.bytes > 600 {
			t.Errorf("%s: it takes %d bytes", c.name, d.bytes)
		}
	}
}
