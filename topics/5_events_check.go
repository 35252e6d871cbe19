package topics

import (
	"errors"
	"fmt"
)

// LastEventUS is the largest event_us that any clock may say, in the year 2286.
const LastEventUS = 10_000_000_000_000_000

// Check refuses what no engine writes: an event without a type, an event_us that is no time, and
// numbers that do not fit into a column of 32 bits. Who reads the events topic calls it, because
// Kafka lets anybody with the right write to it.
func (e *Event) Check() error {
	if e.Type == "" {
		return errors.New("no type")
	}
	if e.EventUS <= 0 || e.EventUS > LastEventUS {
		return fmt.Errorf("event_us %d is not a time", e.EventUS)
	}
	step := 0
	if e.Step != nil {
		step = *e.Step
	}
	for _, f := range [...]struct {
		name  string
		value int
	}{{"version", e.Version}, {"step", step}, {"attempt", e.Attempt}, {"count", e.Count}} {
		if int(int32(f.value)) != f.value {
			return fmt.Errorf("%s %d has more than 32 bits", f.name, f.value)
		}
	}
	return nil
}
