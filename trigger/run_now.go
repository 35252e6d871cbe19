package trigger

import "strings"

// runNow adds an occurrence that fires at once. It does not change the series, so the
// revision stays.
func (d *decision) runNow(c *Command) *Error {
	d.addLive(Live{
		Kind:       LiveRunNow,
		Occurrence: offPlan(runPrefix, c, d.s.Life),
		Nominal:    c.From.Append,
		Due:        c.From.Append,
		Attempt:    1,
		Note:       c.Note,
	})
	d.out.Changed = true
	return nil
}

// The prefixes of ids of occurrences that no plan has. The partition and offset of the
// command follow.
const (
	snoozePrefix = "snz-"
	runPrefix    = "run-"
)

func offThePlan(occurrence string) bool {
	return strings.HasPrefix(occurrence, snoozePrefix) || strings.HasPrefix(occurrence, runPrefix)
}

func offPlan(prefix string, c *Command, l Life) string {
	return prefix + position(c.From.Partition, c.From.Offset) + l.suffix()
}
