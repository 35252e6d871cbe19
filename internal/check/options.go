package check

import "time"

// Options configure Verify. The zero value fits a cluster with default settings.
type Options struct {
	// Disputed judges also series with named calendars, and that each late firing has an event which
	// tells that it was missed. It was tried on histories of the simulator alone.
	Disputed bool
	// Zones is the tz database of the engine. nil: that of this program's Go.
	Zones *Zones
	// End is the time until which the history is judged, in milliseconds since 1970. 0: when the
	// topics were last read, if the dump says so, or else the last append.
	End int64
	// Grace is how late a firing, or the answer to a command, may be before it counts as lost. 0
	// means 1 m.
	Grace time.Duration
	// Unread is the time before End in which a record may be missing although another one names
	// it. Topics are not read at one instant, and a transaction becomes visible in them one by
	// one. 0 means 15 s. -1 means none, for a cluster at rest.
	Unread time.Duration
	// Epsilon is the largest difference between the clocks of engine and broker. 0 means 1 s, -1
	// none.
	Epsilon time.Duration
	// Horizon is the engine's dedup.horizon. 0 means 24 h.
	Horizon time.Duration
	// MisfireAfter is the engine's misfire_after. 0 means 60 s.
	MisfireAfter time.Duration
	// CompactionLag is min.compaction.lag.ms of topic commands. Younger records must be there. 0
	// means 7 d, -1 none.
	CompactionLag time.Duration
	// CatchUp is the engine's catch_up.max. 0 means 1,000.
	CatchUp int
	// Memory bounds the index, in bytes. 0 means 512 MiB. If the index is larger, the history is
	// read several times.
	Memory int64
	// Workers is how many triggers are replayed at once. 0 means 1.
	Workers int
	// Limit bounds the violations that are kept with their timelines. All are counted. 0 means
	// 100.
	Limit int
	// Acks are commands whose acknowledgement a client got (C1).
	Acks []Ack
	// Faults are the times of deliberate faults. They only split the lateness report; they change
	// no verdict.
	Faults []Fault
	// Progress is called with the bytes read so far, and the total. It may be nil.
	Progress func(done, total int64)
	// Stop is asked now and then. Its error ends the check. It may be nil.
	Stop func() error
}

// Ack is a command that Kafka acknowledged to a client.
type Ack struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key"`
	Value     []byte `json:"value,omitempty"` // nil: not compared
}

// Fault is the time of a deliberate fault, until everything has recovered from it.
type Fault struct {
	Name string `json:"name"`
	From int64  `json:"from"` // milliseconds since 1970 UTC
	To   int64  `json:"to"`
}

// during reports whether a firing waited during one of the faults, by its due time and its append
// time.
func during(faults []Fault, due, appended int64) bool {
	for _, f := range faults {
		if due <= f.To && appended >= f.From {
			return true
		}
	}
	return false
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, v time.Duration) {
		switch *d {
		case 0:
			*d = v
		case -1:
			*d = 0
		}
	}
	set(&o.Grace, time.Minute)
	set(&o.Unread, 15*time.Second)
	set(&o.Epsilon, time.Second)
	set(&o.Horizon, 24*time.Hour)
	set(&o.MisfireAfter, time.Minute)
	set(&o.CompactionLag, 7*24*time.Hour)
	if o.CatchUp == 0 {
		o.CatchUp = 1000
	}
	if o.Memory == 0 {
		o.Memory = 512 << 20
	}
	if o.Workers == 0 {
		o.Workers = 1
	}
	if o.Limit == 0 {
		o.Limit = 100
	}
	return o
}
