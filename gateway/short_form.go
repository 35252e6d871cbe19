package gateway

import (
	"cmp"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/trigger"
)

// ShortForm is a short register of a webhook.
type ShortForm struct {
	CallbackURL  string  `json:"callbackUrl" format:"uri"`
	Payload      any     `json:"payload,omitempty"`
	DelaySeconds float64 `json:"delaySeconds" minimum:"0"`
}

// ShortAnswer is the answer to the short form.
type ShortAnswer struct {
	TriggerID string `json:"triggerId"`
	FireAt    string `json:"fireAt,omitempty" format:"date-time"`
	Revision  int64  `json:"revision,omitempty"`
	State     string `json:"state,omitempty" enum:"CANCELLED,FAILED,EXPIRED" doc:"Only if the request is a repeat and the trigger will not fire"`

	Notes []string `json:"notes,omitempty"`
}

var inShort = wording{
	path:       asTrigger.path,
	registered: func(c *command, v *verdict) any { return ShortAnswer(registered(c, v)) },
	accepted:   func(id string) any { return ShortAnswer{TriggerID: id} },
}

// createShort registers the short form. A refusal names the fields as the caller wrote
// them.
func (s *triggerWrites) createShort(w http.ResponseWriter, r *request, short fields) error {
	fs, err := longForm(short)
	if err != nil {
		return err
	}
	if err := s.register(w, r, fs, &inShort); err != nil {
		p := problem.Of(err)
		return problem.InField(p, cmp.Or(shortNames[p.Field], p.Field))
	}
	return nil
}

var shortNames = map[string]string{"callback": "callbackUrl", "delay": "delaySeconds"}

func isShortForm(fs fields) bool { return fs.has("callbackUrl") || fs.has("delaySeconds") }

// longForm converts {callbackUrl, payload, delaySeconds} to a register.
func longForm(short fields) (fields, error) {
	var fs fields
	for _, f := range short {
		switch f.name {
		case "callbackUrl":
			if f.value.Kind() != '"' {
				return nil, shortProblem(f.name, "callbackUrl must be a string")
			}
			fs.set("callback", map[string]jsontext.Value{"url": f.value})
		case "delaySeconds":
			if f.value.Kind() != '0' || f.value[0] == '-' {
				return nil, shortProblem(f.name, "delaySeconds must be a number, 0 or more")
			}
			fs = append(fs, field{"delay", f.value})
		case "payload":
			fs = append(fs, f)
		default:
			return nil, problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, f.name,
				printable.Quoted(f.name)+" is not a field of the short form: callbackUrl, payload and delaySeconds; "+
					"with other fields use snake_case, see /docs")
		}
	}
	for long, name := range shortNames {
		if !fs.given(long) {
			return nil, shortProblem(name, "the short form needs callbackUrl and delaySeconds")
		}
	}
	return fs, nil
}

func shortProblem(name, detail string) *problem.Problem {
	return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, name, detail)
}
