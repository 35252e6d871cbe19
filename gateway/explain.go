package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/explain"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Explanation says what became of a trigger, and why.
type Explanation struct {
	Code     string         `json:"code" enum:"scheduled,paused,overdue,in_flight,retrying,delivered,suppressed,postponed,failed,cancelled,expired,skipped,misfired,fired,rejected,erased,unknown,restoring"`
	Sentence string         `json:"sentence" doc:"For a person; it may change. Times are in the trigger's zone"`
	Evidence []EvidenceJSON `json:"evidence" maxItems:"6" doc:"The event that decides comes first"`
	Next     string         `json:"next,omitempty" format:"date-time" doc:"When it fires next"`
	History  bool           `json:"history" doc:"false: no history was read; the owner has answered, and topic events where no history is kept"`
}

// EvidenceJSON is an event, or what the owner's state has.
type EvidenceJSON struct {
	EventID string `json:"event_id,omitempty" doc:"Absent if this is no event"`
	Source  string `json:"source" doc:"topic/partition/offset of the command or receipt that caused it; timer; or state, for the owner's state"`
	Text    string `json:"text"`
}

// explanations answers why triggers did or did not fire.
type explanations struct {
	lookup *lookup

	events    *eventLog
	now       func() time.Time
	router    *peer.Router
	timetable func() *trigger.Timetable
}

// These bound what an explanation reads of a long life, and how long it waits for a history that
// does not have the trigger's newest events yet.
const (
	explainEvents  = 64
	explainFurther = 1000 // if none of those says what became of it
	explainWait    = time.Second
	explainRecheck = 25 * time.Millisecond
	explainTries   = 3

	maxOccurrence = 512 // bytes of the name of one
)

// getExplanation says in a sentence what became of a trigger. A trigger that is unknown, erased
// or forgotten has an answer, too, from what the history has of it.
func (s *explanations) getExplanation(w http.ResponseWriter, r *request) error {
	key, err := r.key(r.id())
	if err != nil {
		return problem.NotFound(r.id())
	}
	in := &explain.Input{ID: r.id(), Occurrence: r.query.Get("occurrence")}
	if len(in.Occurrence) > maxOccurrence {
		return problem.BadParameter("occurrence", "occurrence is at most "+strconv.Itoa(maxOccurrence)+" bytes")
	}
	for range explainTries {
		if err := s.ask(r, key, in); err != nil {
			return err
		}
		r.read.charge(s.read(r, key, in, !r.stale()))
		if !overtaken(in) {
			break
		}
	}
	answers, err := s.explain(r, []*explain.Input{in})
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, explanationJSON(in, &answers[0]))
}

// explain explains what was read.
func (s *explanations) explain(r *request, of []*explain.Input) (all []explain.Answer, err error) {
	var zones *calendar.Zones
	if t := forked(s.timetable); t != nil {
		zones = t().Zones
	}
	err = r.read.cost.Compute(r.Context(), r.who.Tenant, func() {
		for _, in := range of {
			in.Zones, in.Now = zones, trigger.At(s.now())
			all = append(all, explain.Explain(in))
		}
	})
	return all, err
}

// readBeside reads the events of a trigger whose state was read just before, and does not wait for a history that is
// behind. The state is read anew only if it is older than what the history has. It returns how many events it read.
func (s *explanations) readBeside(r *request, key trigger.Key, in *explain.Input) (n int, err error) {
	for range explainTries {
		if n += s.read(r, key, in, false); !overtaken(in) {
			break
		}
		if err := s.ask(r, key, in); err != nil {
			return n, err
		}
	}
	return n, nil
}

// ask reads the trigger's state from its owner. That nobody answers for its partition is an
// answer.
func (s *explanations) ask(r *request, key trigger.Key, in *explain.Input) (err error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.lookup.readWithin)
	defer cancel()
	get := s.router.Get
	if r.stale() {
		get = s.router.Peek
	}
	in.State, err = get(ctx, key)
	silent := r.stale() && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	if !peer.Moved(err) && !silent {
		return err
	}
	in.Restoring = restoring(s.router.Partitions(ctx)[s.router.PartitionOf(key)])
	return nil
}

// restoring says why nobody answers for a partition.
func restoring(p peer.PartitionStatus) string {
	switch {
	case p.Refused != "":
		return "its partition is refused: " + p.Refused
	case p.Restored < p.RestoreTotal:
		return fmt.Sprintf("its partition is being restored, %d of %d records are read", p.Restored, p.RestoreTotal)
	case p.Doing != "":
		return "its partition is being opened (" + p.Doing + ")"
	}
	return "its partition has no owner that answers"
}

// read reads the newest events of a trigger. The history may be behind the owner, so it waits a moment for it if asked
// to. A history that does not answer is as none: the owner has said the rest. It reads on past events that say nothing
// of what became of it, such as many repeats of a register. It returns how many events it read. Where no history is
// kept, it reads topic events.
func (s *explanations) read(r *request, key trigger.Key, in *explain.Input, waits bool) (n int) {
	ctx, cancel := context.WithTimeout(r.Context(), explainWait)
	defer cancel()
	if s.events.history == nil {
		return s.scan(ctx, r.read, key, in, waits)
	}
	if n = s.newest(ctx, key, in, waits); !in.History || len(in.Events) < explainEvents {
		return n
	}
	if in.Now = trigger.At(s.now()); !explain.Undecided(in) {
		return n
	}
	list, err := s.events.last(ctx, key, explainFurther)
	if err != nil {
		return n + explainFurther // which were asked for
	}
	in.Events, in.Missing = list, missing(in.State, list)
	return n + len(list)
}

// newest reads the newest events, and waits for a history that is behind if asked to.
func (s *explanations) newest(ctx context.Context, key trigger.Key, in *explain.Input, waits bool) (n int) {
	for {
		list, err := s.events.last(ctx, key, explainEvents)
		switch {
		case errors.Is(err, errNoHistory):
			return n
		case err != nil:
			return n + explainEvents // which were asked for
		}
		in.Events, in.History = list, true
		n += len(list)
		if in.Missing = missing(in.State, list); in.Missing == 0 || !waits {
			return n
		}
		select {
		case <-ctx.Done():
			return n
		case <-time.After(explainRecheck):
		}
	}
}

// overtaken reports whether the trigger changed between both reads: the newest event is newer than
// the state. An answer from both would contradict itself.
func overtaken(in *explain.Input) bool {
	n := len(in.Events)
	return in.Restoring == "" && n > 0 && (in.State == nil || in.Events[n-1].Seq > in.State.Seq)
}

// missing is how many of a trigger's newest events are not in the list.
func missing(st *trigger.State, list []topics.Event) int64 {
	if st == nil {
		return 0
	}
	return max(0, st.Seq-newestSeq(list))
}

func explanationJSON(in *explain.Input, a *explain.Answer) *Explanation {
	out := &Explanation{
		Code: string(a.Code), Sentence: a.Sentence, Evidence: []EvidenceJSON{}, Next: instantText(a.Next),
		History: in.History,
	}
	for _, e := range a.Evidence {
		out.Evidence = append(out.Evidence, EvidenceJSON(e))
	}
	return out
}
