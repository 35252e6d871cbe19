package dangling

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestResolution tells the stories in testdata/resolution: what was left open,
// what the brokers answer, and what is done about it. -rewrite writes what is done.
//
//	begin how=aborted before=(due.a/0=committed)
//	inspected ours=(state/0) perhaps=(due.b/0) unknown=(due.c/0)
//	found how=committed
//	ended refused=(due.b/0)
//	checked ours=(state/0)
func TestResolution(t *testing.T) {
	datadriven.Walk(t, "testdata/resolution", func(t *testing.T, path string) {
		var s story
		datadriven.RunTest(t, path, s.run)
	})
}

// story is one opening of a partition.
type story struct {
	*Resolution
	out strings.Builder
}

func (s *story) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	var err error
	switch d.Cmd {
	case "begin":
		s.Resolution = NewResolution(how(d), before(d), func(topic string) bool {
			return strings.HasPrefix(topic, "due.")
		}, s.warn)
	case "inspected":
		err = s.Inspected(leftover(d))
	case "found":
		err = s.Found(how(d))
	case "ended":
		err = s.Ended(partitions(d, "refused"))
	case "checked":
		err = s.Checked(leftover(d))
	default:
		t.Fatalf("%s: what is %q?", d.Pos, d.Cmd)
	}
	if err != nil {
		fmt.Fprintf(&s.out, "FAILS: %v\n", err)
		return s.out.String()
	}
	s.printNext()
	return s.out.String()
}

func (s *story) printNext() {
	next := s.Next()
	fmt.Fprintf(&s.out, "next: %s", next.Do)
	if next.How != "" {
		fmt.Fprintf(&s.out, " %s", next.How)
	}
	for _, at := range next.At {
		fmt.Fprintf(&s.out, " %s/%d", at.Topic, at.Partition)
	}
	s.out.WriteByte('\n')
	if next.Do == Done {
		for _, at := range sorted(s.Unresolved()) {
			fmt.Fprintf(&s.out, "unresolved: %s/%d %s\n", at.Topic, at.Partition, s.Unresolved()[at])
		}
	}
}

func (s *story) warn(msg string, _ ...any) { s.out.WriteString("log: " + msg + "\n") }

func how(d *datadriven.TestData) Ending {
	for _, arg := range d.CmdArgs {
		if arg.Key == "how" {
			return Ending(strings.ReplaceAll(arg.Vals[0], "-", " "))
		}
	}
	return ""
}

func before(d *datadriven.TestData) map[TopicPartition]Ending {
	out := map[TopicPartition]Ending{}
	for _, arg := range d.CmdArgs {
		if arg.Key != "before" {
			continue
		}
		for _, val := range arg.Vals {
			at, how, _ := strings.Cut(val, "=")
			out[partition(at)] = Ending(how)
		}
	}
	return out
}

func leftover(d *datadriven.TestData) Leftover {
	left := Leftover{
		Ours: partitions(d, "ours"), Perhaps: partitions(d, "perhaps"),
		Unknown: map[TopicPartition]error{},
	}
	for _, at := range partitions(d, "unknown") {
		left.Unknown[at] = errors.New("no leader")
	}
	return left
}

func partitions(d *datadriven.TestData, key string) (all []TopicPartition) {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			for _, val := range arg.Vals {
				all = append(all, partition(val))
			}
		}
	}
	return all
}

func partition(text string) TopicPartition {
	topic, number, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		panic(err)
	}
	return TopicPartition{Topic: topic, Partition: int32(n)}
}
