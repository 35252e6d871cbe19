package check

import "time"

// Options say what to hold a history to. The zero value is right for a cluster
// with default settings.
type Options struct {
	// Zones is the tz database the engine had. nil: that of this program's Go.
	Zones *Zones
	// End is until when the history is judged, milliseconds since 1970. 0: when
	// the dump says that its topics were last read, else its last append.
	End int64
	// Grace is how late a firing, or an answer to a command, may be before it
	// counts as lost. 0 means 1 m.
	Grace time.Duration
	// Settle is how long before End a record may be missing that another one
	// speaks of, because topics are not read at one instant and a transaction
	// shows in them one after the other. 0 means 15 s, -1 none: all is at rest.
	Unread time.Duration
	// Epsilon is how far clocks of engine and broker may be apart. 0 means 1 s,
	// -1 none.
	Epsilon time.Duration
	// Horizon is the engine's dedup.horizon. 0 means 24 h.
	Horizon time.Duration
	// MisfireAfter is the engine's misfire_after. 0 means 60 s.
	MisfireAfter time.Duration
	// CompactionLag is min.compaction.lag.ms of topic commands: what is younger
	// must be there. 0 means 7 d, -1 none.
	CompactionLag time.Duration
	// CatchUp is the engine's catch_up.max. 0 means 1,000.
	CatchUp int
	// Memory bounds the index, in bytes. 0 means 512 MiB. A history with a larger
	// one is read several times.
	Memory int64
	// Workers is how many triggers are replayed at a time. 0 means 1.
	Workers int
	// Limit bounds the violations that are kept with their timelines; all are
	// counted. 0 means 100.
	Limit int
	// Acks are commands that clients know to be acknowledged (C1).
	Acks []Ack
	// Faults are when something was broken on purpose. Lateness is reported for
	// them apart; nothing is judged otherwise because of them.
	Faults []Fault
	// Progress is told how many bytes of how many were looked at. It may be nil.
	Progress func(done, total int64)
}

// Ack is a command that Kafka acknowledged to a client.
type Ack struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key"`
	Value     []byte `json:"value,omitempty"` // nil: not compared
}

// Fault is a time in which something was broken on purpose, until all had
// recovered from it.
type Fault struct {
	Name string `json:"name"`
	From int64  `json:"from"` // milliseconds since 1970 UTC
	To   int64  `json:"to"`
}

// during says whether a firing that was due at an instant, and was appended at
// another, waited in one of the faults.
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
