package analytics

import (
	"maps"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// Standing is a trigger at the end of a day: a row of a snapshot. A column that events have,
// too, has the same field id. Zero values are nulls, as in Row.
type Standing struct {
	Partition int32  `parquet:"log_partition,id(1),delta"`
	Offset    int64  `parquet:"log_offset,id(2),dict"` // of its newest event
	Type      string `parquet:"type,id(5),optional,dict"`
	Trigger   string `parquet:"trigger,id(7),optional,dict"`
	Tenant    string `parquet:"tenant,id(8),optional,dict"`
	Revision  int64  `parquet:"revision,id(9),optional,dict"`
	Seq       int64  `parquet:"seq,id(10),optional,dict"`

	EventUS     int64 `parquet:"event_us,id(12),optional,delta,timestamp(microsecond)"`
	ScheduledAt int64 `parquet:"scheduled_at,id(13),optional,delta,timestamp(millisecond)"`
	NextAt      int64 `parquet:"next_at,id(14),optional,delta,timestamp(millisecond)"`
	CreatedAt   int64 `parquet:"created_at,id(46),optional,delta,timestamp(millisecond)"`

	Channel       string `parquet:"channel,id(25),optional,dict"`
	UserID        string `parquet:"user_id,id(26),optional,dict"`
	State         string `parquet:"state,id(29),optional,dict"`
	CorrelationID string `parquet:"correlation_id,id(38),optional,dict"`
	Rule          string `parquet:"rule,id(41),optional,dict"`

	Tags map[string]string `parquet:"tags,id(42),optional" parquet-key:",id(43),dict" parquet-value:",id(44),dict"`
}

// said are the columns of events that a Standing follows from.
type said struct {
	Partition     int32             `parquet:"log_partition"`
	Offset        int64             `parquet:"log_offset"`
	Type          string            `parquet:"type"`
	Trigger       string            `parquet:"trigger"`
	Tenant        string            `parquet:"tenant"`
	Revision      int64             `parquet:"revision"`
	Seq           int64             `parquet:"seq"`
	OccurredAt    int64             `parquet:"occurred_at"`
	EventUS       int64             `parquet:"event_us"`
	ScheduledAt   int64             `parquet:"scheduled_at"`
	NextAt        int64             `parquet:"next_at"`
	Channel       string            `parquet:"channel"`
	UserID        string            `parquet:"user_id"`
	State         string            `parquet:"state"`
	CorrelationID string            `parquet:"correlation_id"`
	Rule          string            `parquet:"rule"`
	Tags          map[string]string `parquet:"tags,optional"`
}

// folded is a Standing that some events of a trigger make. SaysNext and SaysPlan: one of them
// says what is planned next, and one has the rule. What older events say of these is over.
type folded struct {
	Standing

	SaysNext, SaysPlan bool
}

// apply takes in the trigger's next event, as package asof does. views.sql has the same in
// SQL (TestSnapshotsAsOf compares the two). The row's texts are valid for the call only.
func (f *folded) apply(r *said) {
	f.Partition, f.Offset, f.EventUS, f.Revision, f.Seq = r.Partition, r.Offset, r.EventUS, r.Revision, r.Seq
	keep(&f.Type, r.Type)
	if r.State != "" {
		keep(&f.State, r.State)
	}
	if r.ScheduledAt != 0 {
		f.ScheduledAt = r.ScheduledAt
	}
	kind := trigger.FactType(r.Type)
	if kind.SaysNext() {
		f.NextAt, f.SaysNext = r.NextAt, true
	}
	if kind == trigger.Registered {
		f.CreatedAt = r.OccurredAt
	}
	switch {
	case kind == trigger.ErasedFact:
		f.SaysPlan = true
		f.Rule, f.Channel, f.UserID, f.CorrelationID, f.Tags = "", "", "", "", nil
	case r.Rule != "":
		f.SaysPlan = true
		keep(&f.Rule, r.Rule)
		keep(&f.Channel, r.Channel)
		keep(&f.UserID, r.UserID)
		keep(&f.CorrelationID, r.CorrelationID)
		f.Tags = nil
		for name, value := range r.Tags {
			if f.Tags == nil {
				f.Tags = make(map[string]string, len(r.Tags))
			}
			f.Tags[strings.Clone(name)] = strings.Clone(value)
		}
	}
}

// keep copies a text unless it is there.
func keep(into *string, text string) {
	if *into != text {
		*into = strings.Clone(text)
	}
}

// after is what f says if older is what the events before say.
func (f *folded) after(older *folded) {
	if f.ScheduledAt == 0 {
		f.ScheduledAt = older.ScheduledAt
	}
	if f.CreatedAt == 0 {
		f.CreatedAt = older.CreatedAt
	}
	if !f.SaysNext {
		f.NextAt, f.SaysNext = older.NextAt, older.SaysNext
	}
	if !f.SaysPlan {
		f.Rule, f.Channel, f.UserID, f.CorrelationID = older.Rule, older.Channel, older.UserID, older.CorrelationID
		f.Tags, f.SaysPlan = maps.Clone(older.Tags), older.SaysPlan
	}
}

// endedDays is for how many days a snapshot has a trigger that has ended. The engine forgets
// it after dedup.horizon. Without a bound each snapshot would have all triggers that ever were.
const endedDays = 2

// stays says that the snapshot of a day has the trigger.
func (s *Standing) stays(today int64) bool {
	status, ok := trigger.ParseStatus(s.State)
	return ok && !status.Finished() || day(s.EventUS) > today-endedDays
}
