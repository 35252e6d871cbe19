package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestGapServesOnce: leave to go on from one offset is none for another gap, nor
// for another partition.
func TestGapServesOnce(t *testing.T) {
	o := &Options{AcceptGaps: []Gap{{3, 4711}}, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		at      Gap
		refused bool
	}{{Gap{3, 4711}, false}, {Gap{3, 4712}, true}, {Gap{3, 0}, true}, {Gap{2, 4711}, true}} {
		if err := o.gap(c.at.Partition, c.at.Offset, "lost"); errors.Is(err, ErrGap) != c.refused {
			t.Errorf("%v: %v", c.at, err)
		}
	}
}

// TestRefusal: why a partition must not be opened.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("a broker went away"), ""},
		{ErrGap, refusedGap},
		{topics.ErrNewer, refusedFormat},
		{errSecondWriter, RefusedWriter},
		{errStateTooLarge, refusedLimit},
	} {
		if got := Refusal(fmt.Errorf("open: %w", c.err)); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// TestOwnedBy: only its own group may have a partition, or one that takes it
// over.
func TestOwnedBy(t *testing.T) {
	for _, c := range []struct {
		owner, takes string
		refused      bool
	}{
		{"", "", false},
		{"ours", "", false},
		{"theirs", "", true},
		{"theirs", "theirs", false},
		{"theirs", "another", true},
	} {
		o := &Options{Group: "ours", TakeOverGroup: c.takes, Names: topics.Names{Prefix: "wc."}}
		err := o.ownedBy(c.owner)
		if errors.Is(err, ErrForeignGroup) != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		for _, want := range []string{
			`topics wc.* belong to group "theirs", and this node has group "ours"`, "set group: theirs;",
			"another topics.prefix", "--take-over theirs",
		} {
			if c.refused && !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q in it", c, err, want)
			}
		}
	}
}

// TestTooLarge: a change is refused whose state would not fit into its topic.
func TestTooLarge(t *testing.T) {
	takes := sizes{state: "state", used: map[string]int{"state": 20 << 10}}
	for payload, refused := range map[int]bool{1 << 10: false, 15 << 10: true} {
		s := &trigger.State{
			Key: "k", Status: trigger.Pending,
			Spec: trigger.Spec{Payload: bytes.Repeat([]byte{'x'}, payload)},
		}
		if err := takes.tooLarge(&trigger.Outcome{State: s}); (err != nil) != refused {
			t.Errorf("a payload of %d bytes: %v", payload, err)
		}
	}
	long := strings.Repeat("o", 15<<10)
	for name, s := range map[string]*trigger.State{
		"a live occurrence": {Live: []trigger.Live{{Occurrence: long}}},
		"its local time":    {Live: []trigger.Live{{Local: long}}},
		"its own content":   {Live: []trigger.Live{{Was: &trigger.Spec{Payload: []byte(long)}}}},
		"a redriven one":    {Redriven: []trigger.Redrive{{Occurrence: long}}},
	} {
		if s.Key = "k"; takes.tooLarge(&trigger.Outcome{State: s}) == nil {
			t.Errorf("%s of %d bytes is accepted", name, len(long))
		}
	}
}

// TestPutOff: a topic that refuses fails its triggers at last; one that does not
// answer is waited for.
func TestPutOff(t *testing.T) {
	for _, u := range []*output.Unhealthy{{Reason: "refused"}, {Reason: "away", Silent: true}} {
		p := &Partition{machine: trigger.Machine{
			Horizon:   time.Hour,
			Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
			Channel:   func(string) trigger.Channel { return trigger.Channel{} },
		}}
		spec := &trigger.Spec{When: trigger.When{Kind: trigger.WhenInstant, FireAt: 1000}, Priority: trigger.Normal}
		s := p.machine.Apply(nil, &trigger.Command{
			Op: trigger.OpRegister, Key: "k", Spec: spec,
			From: trigger.Origin{Append: 500},
		}, 500).State
		dead := 0
		for range 30 {
			for _, tm := range s.Timers(nil) {
				out := p.putOff(s, tm, tm.Due, u)
				s, dead = out.State, dead+len(out.Dead)
			}
		}
		if (dead == 0) != u.Silent {
			t.Errorf("silent %v: %d dead letters", u.Silent, dead)
		}
	}
}
