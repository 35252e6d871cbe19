package barrier

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/waterclock/waterclock/trigger"
)

// TestStories tells the stories in testdata/story: what is due, what Kafka answers,
// and what may fire. Times are milliseconds. -rewrite writes what comes of it.
//
//	start commands=10 receipts=5 hold=10000   where the inputs are read from
//	read commands=12                          everything up to offset 12 was polled
//	clock now=990                             nothing is due, and this is the time
//	try now=1000 wheel=1000 ready= held=      something is due; which question comes
//	ends asked=1000 commands=15 receipts=5    the high watermarks
//	stable offset=13                          the last stable offset of the input asked about
//	skipped next=14                           where what is hidden ends
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/story", func(t *testing.T, path string) {
		var s story
		datadriven.RunTest(t, path, s.run)
	})
}

type story struct {
	b   Barrier
	r   Round
	now time.Time
	out strings.Builder
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	if d.HasArg("now") {
		s.now = at(arg(d, "now"))
	}
	switch d.Cmd {
	case "start":
		s.now = at(arg(d, "now"))
		s.b = New(Start{"commands", arg(d, "commands")}, Start{"receipts", arg(d, "receipts")},
			time.Duration(arg(d, "hold"))*time.Millisecond, s.now)
		return ""
	case "read":
		for _, topic := range []string{"commands", "receipts"} {
			if d.HasArg(topic) {
				s.b.Read(topic, arg(d, topic), s.now)
			}
		}
		return ""
	case "clock":
		s.b.Clock(trigger.At(s.now))
		return ""
	case "try":
		s.r = s.b.Begin(trigger.At(s.now), Demand{
			InWheel: d.HasArg("wheel"), Wheel: trigger.Instant(arg(d, "wheel")),
			Ready: trigger.Instant(arg(d, "ready")), Held: trigger.Instant(arg(d, "held")),
		})
	case "ends":
		s.r.Ends(trigger.Instant(arg(d, "asked")), arg(d, "commands"), arg(d, "receipts"))
	case "stable":
		q, gaveUp := s.r.Stable(arg(d, "offset"), s.now)
		s.printGaveUp(gaveUp)
		if q.Ask == Skip {
			fmt.Fprintf(&s.out, "ask: what is hidden of %s from %d on\n", q.Input.Topic, q.Input.At())
			return s.out.String()
		}
	case "skipped":
		s.printGaveUp(s.r.Skipped(arg(d, "next"), s.now))
	default:
		t.Fatalf("%s: what is %q?", d.Pos, d.Cmd)
	}
	s.printNext()
	return s.out.String()
}

func (s *story) printNext() {
	switch q := s.r.Next(s.now); q.Ask {
	case Ends:
		s.out.WriteString("ask: where the inputs end\n")
	case Stable:
		fmt.Fprintf(&s.out, "ask: the stable offset of %s\n", q.Input.Topic)
	case Nothing:
		for i, held := range s.r.Released() {
			if !held.IsZero() {
				fmt.Fprintf(&s.out, "%s was held for %v\n", []string{"commands", "receipts"}[i], s.now.Sub(held))
			}
		}
		s.printInput("commands", &s.b.Commands)
		s.printInput("receipts", &s.b.Receipts)
	}
}

// printInput says what may fire as far as one input goes.
func (s *story) printInput(name string, in *Input) {
	if in.Reached() {
		fmt.Fprintf(&s.out, "%s: at %d, all read; what is due up to %d may go\n", name, in.at, in.through)
		return
	}
	fmt.Fprintf(&s.out, "%s: at %d of %d; WAIT\n", name, in.at, in.end)
}

func (s *story) printGaveUp(g *GaveUp) {
	if g != nil {
		fmt.Fprintf(&s.out, "log: firing past an open transaction on %s at %d of %d, held for %v\n", g.Topic, g.Stable,
			g.End, g.Held)
	}
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }

func arg(d *datadriven.TestData, key string) (n int64) {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			fmt.Sscan(a.Vals[0], &n)
		}
	}
	return n
}
