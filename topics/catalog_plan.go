package topics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Existing is a topic as the cluster has it.
type Existing struct {
	Name       string
	Partitions int32
	Configs    map[string]string // effective values, defaults included
}

// ChangeKind says what a Change asks for.
type ChangeKind uint8

// What a Change asks for.
const (
	Create ChangeKind = iota + 1 // the topic is missing
	Alter                        // a setting differs, and setting it loses nothing
	Refuse                       // the engine must not run like this; an operator has to decide
)

func (k ChangeKind) String() string {
	switch k {
	case Create:
		return "create"
	case Alter:
		return "alter"
	}
	return "refuse"
}

// Change is one difference between a topic as it is and as it must be.
type Change struct {
	Kind    ChangeKind
	Topic   string
	Setting string // Kafka's name, or "partitions"; "" for Create
	Have    string
	Want    string
	Why     string // Refuse: what would go wrong
	// Late says, of a Create, what processes do without the topic; "": they cannot run.
	Late string
}

func (c Change) String() string {
	if c.Kind == Create {
		return "create " + c.Topic
	}
	s := fmt.Sprintf("%s %s: %s is %q, must be %q", c.Kind, c.Topic, c.Setting, c.Have, c.Want)
	if c.Why != "" {
		s += ": " + c.Why
	}
	return s
}

// Plan compares the catalogue with the cluster. Changes are in the catalogue's order, and by
// the setting's name within a topic.
func Plan(want []Topic, existing []Existing) []Change {
	have := make(map[string]*Existing, len(existing))
	for i := range existing {
		have[existing[i].Name] = &existing[i]
	}
	var plan []Change
	for i := range want {
		if e := have[want[i].Name]; e != nil {
			plan = append(plan, want[i].compare(e)...)
		} else {
			plan = append(plan, Change{Kind: Create, Topic: want[i].Name, Late: want[i].late})
		}
	}
	return plan
}

// Replicable replaces the topics that a plan would create by one refusal, if the cluster has
// fewer brokers than replicas.
func Replicable(plan []Change, want []Topic, brokers int) []Change {
	replicas := map[string]int16{}
	for i := range want {
		replicas[want[i].Name] = want[i].Replication
	}
	out := slices.Clone(plan)
	for i, c := range out {
		if r := replicas[c.Topic]; c.Kind == Create && int(r) > brokers {
			out[i] = Change{
				Kind: Refuse, Topic: c.Topic, Setting: "replication", Have: strconv.Itoa(brokers),
				Want: strconv.Itoa(int(r)),
				Why: fmt.Sprintf("it cannot be created with %d replicas on a cluster of %d: start more brokers, or "+
					"set topics.replication to %d or less", r, brokers, brokers),
			}
		}
	}
	return out
}

// Check joins every Refuse of a plan into one error. With managed false (the
// setting topics.manage) nothing will be created or altered either, so those
// are errors too; not the lack of a topic that may come late.
func Check(plan []Change, managed bool) error {
	var errs []error
	for _, c := range plan {
		if c.Kind == Refuse || !managed && c.Late == "" {
			errs = append(errs, errors.New(c.String()))
		}
	}
	return errors.Join(errs...)
}

func (t *Topic) compare(e *Existing) []Change {
	var plan []Change
	if e.Partitions != t.Partitions {
		plan = append(plan, Change{
			Kind: Refuse, Topic: t.Name, Setting: "partitions",
			Have: strconv.Itoa(int(e.Partitions)), Want: strconv.Itoa(int(t.Partitions)),
			Why: "triggers would be searched on the wrong partitions (setting topics.partitions)",
		})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Configs)) {
		if c, differs := t.compareConfig(name, e.Configs[name]); differs {
			plan = append(plan, c)
		}
	}
	return append(plan, t.compareUnset(e)...)
}

func (t *Topic) compareConfig(name, have string) (c Change, differs bool) {
	c = Change{Kind: Alter, Topic: t.Name, Setting: name, Have: have, Want: t.Configs[name]}
	switch name {
	case cfgCleanup:
		return t.comparePolicy(c)
	case cfgRetention, cfgMinCompaction, cfgMaxMessage, cfgDeleteAfter:
		return c, belowWanted(have, c.Want) // an operator may keep records for longer
	}
	return c, have != c.Want
}

// comparePolicy refuses a policy that loses what the topic must keep: compact
// drops all but the last record of a key, delete drops by age.
func (t *Topic) comparePolicy(c Change) (Change, bool) {
	have, want := policies(c.Have), policies(c.Want)
	if slices.Equal(have, want) {
		return c, false
	}
	switch {
	case slices.Contains(have, "compact") && !slices.Contains(want, "compact"):
		c.Kind, c.Why = Refuse,
			"this cleanup policy would lose data: compaction drops all but the last record of a key, and with them "+
				t.keep
	case slices.Contains(have, "delete") && !slices.Contains(want, "delete"):
		c.Kind, c.Why = Refuse, "this cleanup policy would lose data: deletion by age drops "+t.keep
	}
	return c, true
}

func policies(s string) []string {
	list := strings.Split(strings.ReplaceAll(s, " ", ""), ",")
	slices.Sort(list)
	return list
}

// belowWanted compares numbers; -1 means no bound.
func belowWanted(have, want string) bool {
	h, errH := strconv.ParseInt(have, 10, 64)
	w, errW := strconv.ParseInt(want, 10, 64)
	if errH != nil || errW != nil {
		return have != want
	}
	return h >= 0 && (w < 0 || h < w)
}

// compareUnset refuses settings outside of the catalogue that would lose data.
func (t *Topic) compareUnset(e *Existing) []Change {
	size := e.Configs[cfgRetentionSize]
	if size == "" || size == "-1" || t.Configs[cfgCleanup] == "compact" {
		return nil
	}
	return []Change{{
		Kind: Refuse, Topic: t.Name, Setting: cfgRetentionSize, Have: size, Want: "-1",
		Why: "deletion by size would lose data: it drops " + t.keep + " whatever its age",
	}}
}
