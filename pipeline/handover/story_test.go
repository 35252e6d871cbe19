package handover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestStories tells the stories in testdata/story: what an owner has left, what the
// topics hold, and how the next one goes on. -rewrite writes what comes of it.
//
//	left turns=7 member=a commands=40 receipts=5 last=39 applied   where it stood; applied: so are offsets elsewhere
//	logs commands=(10,50) receipts=(0,5) commands-id=1             first offset and end now; 1 is every topic's id
//	resume days=1 accept=(50)                                      a new owner, so many days later
//	lost offset=-1                                                 the answer to a question
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/story", func(t *testing.T, path string) {
		var s story
		datadriven.RunTest(t, path, s.run)
	})
}

type story struct {
	left  Left
	found Found
	r     *Resumption
	out   strings.Builder
}

var stopped = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "left":
		s.scanLeft(t, d)
	case "logs":
		s.scanLogs(t, d)
	case "resume":
		s.begin(t, d)
	case "lost":
		var offset int64
		d.ScanArgs(t, "offset", &offset)
		if err := s.r.Lost(offset); err != nil {
			return "REFUSED: " + err.Error() + "\n"
		}
		s.next()
	default:
		t.Fatalf("%s: what is %q?", d.Pos, d.Cmd)
	}
	return s.out.String()
}

func (s *story) scanLeft(t *testing.T, d *datadriven.TestData) {
	p, g := topics.Progress{At: trigger.At(stopped), EventUS: 99}, topics.Guard{Group: "waterclock"}
	id := number(d, "topics", 1)
	p.Seq, p.Term = number(d, "turns", 0), 3
	p.NextCommand, p.NextReceipt, p.NextControl = number(d, "commands", 0), number(d, "receipts", 0), 8
	d.MaybeScanArgs(t, "member", &p.Member)
	p.CommandsID, p.StateID, g.ReceiptsID, g.ControlID = named(id), named(id), named(id), named(id)
	if d.HasArg("last") {
		g.Commands = topics.LastRead{Offset: number(d, "last", 0), Epoch: 4, Sum: 1}
	}
	if d.HasArg("applied") {
		p.Applied = map[int32]int64{1: 30, -2: 4}
		p.Forwarded = maps.Clone(p.Applied)
	}
	g.Seq = p.Seq
	s.left = Left{p, g}
}

func (s *story) scanLogs(t *testing.T, d *datadriven.TestData) {
	log := func(name string) Log {
		l := Log{Topic: name, ID: named(number(d, name+"-id", 1))}
		if _, err := fmt.Sscan(strings.Join(values(d, name), " "), &l.Start, &l.End); err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return l
	}
	s.found = Found{
		Commands: log("commands"), Receipts: log("receipts"), State: named(1),
		Control: named(number(d, "control-id", 1)),
	}
}

func (s *story) begin(t *testing.T, d *datadriven.TestData) {
	now := trigger.At(stopped.Add(time.Duration(number(d, "days", 0)) * 24 * time.Hour))
	owner := Owner{Partition: 3, Group: "waterclock", Member: "b", Address: "b:7070", Now: now}
	accepted := values(d, "accept")
	var err error
	s.r, err = Begin(owner, s.left, s.found, func(offset int64, lost string) error {
		if slices.Contains(accepted, fmt.Sprint(offset)) {
			fmt.Fprintf(&s.out, "accepted: %s\n", lost)
			return nil
		}
		return fmt.Errorf("%s; accept %d to go on", lost, offset)
	})
	if err != nil {
		fmt.Fprintf(&s.out, "REFUSED: %v\n", err)
		return
	}
	s.next()
}

// next prints the question at hand, or how the owner goes on.
func (s *story) next() {
	q, err := s.r.Next()
	switch {
	case err != nil:
		fmt.Fprintf(&s.out, "REFUSED: %v\n", err)
		return
	case q != nil:
		fmt.Fprintf(&s.out, "ask: does %s still hold what was read at %d?\n", q.Topic, q.Last.Offset)
		return
	}
	how := s.r.Result()
	if how.TakenFrom != "" {
		fmt.Fprintf(&s.out, "taken over from %s\n", how.TakenFrom)
	}
	if how.ControlAnew {
		s.out.WriteString("settings are read from the beginning\n")
	}
	p, g := &how.Progress, &how.Guard
	fmt.Fprintf(&s.out, "term %d of %s at %s, after turn %d\n", p.Term, p.Member, p.Owner, p.Seq)
	for _, f := range how.Follow {
		fmt.Fprintf(&s.out, "read %s from %d\n", f.Topic, f.Next)
	}
	if len(p.Applied) > 0 {
		fmt.Fprintf(&s.out, "applied %v, forwarded %v\n", p.Applied, p.Forwarded)
	}
	if g.Commands != (topics.LastRead{}) {
		fmt.Fprintf(&s.out, "known of commands: what was read at %d\n", g.Commands.Offset)
	}
	if g.Seq != 0 || p.CommandsID != s.found.Commands.ID || g.ReceiptsID != s.found.Receipts.ID ||
		g.ControlID != s.found.Control || p.StateID != s.found.State || g.Group != "waterclock" {
		s.out.WriteString("WRONG: the next guard would not name the topics as they are\n")
	}
}

func named(id int64) (b [16]byte) {
	b[3] = byte(id)
	return b
}

func number(d *datadriven.TestData, key string, def int64) int64 {
	for _, v := range values(d, key) {
		fmt.Sscan(v, &def)
	}
	return def
}

func values(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}
