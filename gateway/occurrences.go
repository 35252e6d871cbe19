package gateway

import (
	"net/http"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/trigger"
)

// OccurrenceJSON is one coming occurrence.
type OccurrenceJSON struct {
	At         string `json:"at" doc:"Nominal instant, without jitter" format:"date-time"`
	LocalTime  string `json:"local_time,omitempty" example:"2026-11-20T09:00:00[America/New_York]"`
	Occurrence string `json:"occurrence" doc:"Its name, as in ce_id"`
	Note       string `json:"note,omitempty" doc:"What a gap, an overlap or a calendar did to its wall time, as POST /v1/preview says it; not of a snoozed one"`
}

// Occurrences lists the next occurrences of one trigger.
type Occurrences struct {
	Items   []OccurrenceJSON `json:"items"`
	LeftOut []OccurrenceJSON `json:"left_out,omitempty" doc:"What does not fire between now and the last item, because a calendar leaves the day out, or dst.gap the time: at most 100 of each, in order"`
}

const (
	defaultOccurrences = 10
	maxOccurrences     = 1000
	maxLeftOut         = 100
)

// getOccurrences lists when a trigger will fire, with snoozed occurrences. A paused trigger
// is shown as if it were resumed now.
func (s *triggerViews) getOccurrences(w http.ResponseWriter, r *request) error {
	n, err := r.number("n", defaultOccurrences, 1, maxOccurrences)
	if err != nil {
		return err
	}
	st, err := s.lookup.read(r)
	if err != nil {
		return err
	}
	answer := Occurrences{Items: []OccurrenceJSON{}}
	var planned, leftOut []trigger.Planned
	if err := r.read.cost.Compute(r.Context(), r.who.Tenant, func() {
		times := forked(s.timetable)
		planned = peer.Planned(times, st, n, 0)
		var until trigger.Instant // they are in the order in which they fire
		for i := range planned {
			until = max(until, planned[i].Nominal)
		}
		if len(planned) > 0 && times != nil {
			leftOut = times().LeftOut(st, trigger.At(s.now()), until, maxLeftOut)
		}
	}); err != nil {
		return err
	}
	r.read.charge(len(planned) + len(leftOut))
	for i := range planned {
		answer.Items = append(answer.Items, occurrenceJSON(&planned[i]))
	}
	for i := range leftOut {
		answer.LeftOut = append(answer.LeftOut, occurrenceJSON(&leftOut[i]))
	}
	return sendJSON(w, http.StatusOK, answer)
}

func occurrenceJSON(p *trigger.Planned) OccurrenceJSON {
	return OccurrenceJSON{At: p.Nominal.String(), LocalTime: p.Local, Occurrence: p.Occurrence, Note: p.Note}
}

// forked returns a timetable for one request, because compiled rules must not be shared
// between goroutines.
func forked(timetable func() *trigger.Timetable) func() *trigger.Timetable {
	if timetable == nil {
		return nil
	}
	own := timetable().Fork()
	return func() *trigger.Timetable { return own }
}
