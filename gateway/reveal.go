package gateway

import (
	"errors"
	"net/http"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Revealed is what a trigger carries.
type Revealed struct {
	TriggerID     string `json:"trigger_id"`
	Revision      int64  `json:"revision"`
	Payload       any    `json:"payload,omitempty" doc:"Any JSON; absent if there is no payload"`
	PayloadBase64 string `json:"payload_base64,omitempty" doc:"The payload, if it is not JSON"`
}

// reveals shows payloads to people, and records that it does.
type reveals struct {
	bodies *bodies
	lookup *lookup
}

// postReveal shows a payload. It is on topic audit before it is shown, or it is not shown.
func (s *reveals) postReveal(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.optionalObject(w, r)
	if err != nil {
		return err
	}
	note, err := fs.takeText("note")
	if err != nil {
		return err
	}
	if err := topics.CheckNote(note); err != nil {
		return err
	}
	r.act.because(note)
	if len(fs) > 0 {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, fs[0].name,
			printable.Quoted(fs[0].name)+" is not a field here; the only one is note")
	}
	st, err := s.lookup.read(r)
	if err != nil {
		return err
	}
	if err := r.act.recordFirst(http.StatusOK); err != nil {
		return err
	}
	shown, err := parseFields(registerJSON(st, true))
	if err != nil {
		return err
	}
	answer := Revealed{TriggerID: st.Key.ID(), Revision: st.Revision}
	if payload := shown.take("payload"); payload != nil {
		answer.Payload = payload
	}
	if answer.PayloadBase64, err = shown.takeText("payload_base64"); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, answer)
}

// recordFirst records an act before it is done. It must not be done if that fails.
func (a *act) recordFirst(status int) error {
	record := a.record
	record.Status = status
	a.kind = actRecorded
	switch err := a.by.log.await(a.by.write(record, false, false)); {
	case errors.Is(err, errNoAudit):
		return problem.Unavailable(nil, "a payload is shown only if that is on the audit topic, which does not exist: "+
			"run `waterclock topics apply`")
	case err != nil:
		return problem.Unavailable(err, "a payload is shown only if that is on the audit topic, which does not take "+
			"the record")
	}
	return nil
}
