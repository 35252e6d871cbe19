package topics

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// Bounds on an escalation.
const (
	maxSteps     = 8
	minStepAfter = time.Second
	maxStepAfter = 7 * 24 * time.Hour
)

// stepText is a step of an escalation as it was written.
type stepText struct {
	channel, after       string
	hasChannel, hasAfter bool
}

var stepFields = []string{"after", "channel"}

// readSteps reads [{"channel":"push"},{"after":"5m","channel":"sms"}].
func (d *draft) readSteps(dec *jsontext.Decoder, kind jsontext.Kind) error {
	if kind != '[' {
		d.wrongType(fEscalation, "a list of steps")
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	d.steps = []stepText{}
	for dec.PeekKind() != ']' {
		step, err := d.readStep(dec)
		if err != nil {
			return err
		}
		if len(d.steps) <= maxSteps {
			d.steps = append(d.steps, step)
		}
	}
	_, err := dec.ReadToken()
	return err
}

func (d *draft) readStep(dec *jsontext.Decoder) (step stepText, err error) {
	if dec.PeekKind() != '{' {
		d.refuseStep("a step is an object with channel, and after from the second on")
		return step, dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return step, err
	}
	for dec.PeekKind() != '}' {
		raw, err := dec.ReadValue()
		if err != nil {
			return step, err
		}
		name, kind := string(unquoted(raw)), dec.PeekKind()
		value, err := dec.ReadValue()
		if err != nil {
			return step, err
		}
		d.readStepField(&step, name, kind, value)
	}
	_, err = dec.ReadToken()
	return step, err
}

func (d *draft) readStepField(step *stepText, name string, kind jsontext.Kind, value jsontext.Value) {
	var to *string
	var has *bool
	switch name {
	case "channel":
		to, has = &step.channel, &step.hasChannel
	case "after":
		to, has = &step.after, &step.hasAfter
	default:
		d.refuse(trigger.CodeUnknownField, "escalation", unknown("field of a step", name, stepFields))
		return
	}
	switch {
	case *has:
		d.refuseStep(name + " is given twice in a step")
	case kind == '"':
		*to, *has = string(unquoted(value)), true
	case kind == '0' && name == "after":
		*to, *has = string(value), true
	default:
		d.refuseStep(name + " of a step must be a string")
	}
}

func (d *draft) refuseStep(msg string) { d.refuse(trigger.CodeInvalid, "escalation", msg) }

// escalation checks the steps. The first is the trigger's own channel.
func (d *draft) escalation(channel string) []trigger.Step {
	switch n := len(d.steps); {
	case n == 0:
		d.refuseStep("an escalation has 1 to 8 steps: leave it out")
	case n > maxSteps:
		d.refuseStep("an escalation has at most 8 steps")
	}
	steps := make([]trigger.Step, 0, len(d.steps))
	for i := range d.steps {
		step := &d.steps[i]
		switch {
		case !step.hasChannel:
			d.refuseStep(fmt.Sprintf("step %d has no channel", i))
		case !ValidChannel(step.channel):
			d.refuseStep(fmt.Sprintf("step %d: %s", i, whatChannelsAre))
		case i == 0 && step.channel != channel:
			d.refuseStep("the first step's channel is the trigger's: " + quoteForPerson(clip(channel, 49)))
		case i == 0 && step.hasAfter:
			d.refuseStep("the first step is what the trigger fires: it has no after")
		case i > 0 && !step.hasAfter:
			d.refuseStep(fmt.Sprintf("step %d has no after: how long after the step before it goes out", i))
		}
		s := trigger.Step{Channel: step.channel}
		if step.hasAfter {
			s.After = d.stepAfter(step.after)
		}
		steps = append(steps, s)
	}
	return steps
}

func (d *draft) stepAfter(text string) time.Duration {
	after, err := calendar.ParseDuration(text)
	switch {
	case err != nil:
		d.refuseError("escalation", err)
	case after < minStepAfter || after > maxStepAfter:
		d.refuseStep("after is from 1s to 7d")
	}
	return after
}

func spellEscalation(b []byte, s *trigger.Spec) []byte {
	if len(s.Escalation) == 0 {
		return b
	}
	b = append(b, '[')
	for i := range s.Escalation {
		step := &s.Escalation[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = appendObject(b, member{"after", spellDuration(nil, step.After)},
			member{"channel", appendString(nil, step.Channel)})
	}
	return append(b, ']')
}

// ParseEscalation reads the form of the command line, push,5m:sms,10m:email. Its result is
// the JSON of the field escalation.
func ParseEscalation(text string) ([]StepJSON, error) {
	var steps []StepJSON
	for i, one := range strings.Split(text, ",") {
		one = strings.TrimSpace(one)
		after, channel, timed := strings.Cut(one, ":")
		if !timed {
			after, channel = "", one
		}
		if timed == (i == 0) || channel == "" {
			return nil, fmt.Errorf("%q is not an escalation: write push,5m:sms,10m:email, a channel and then how long "+
				"after the step before it the next one goes", text)
		}
		steps = append(steps, StepJSON{After: TextOrNumber(after), Channel: channel})
	}
	return steps, nil
}
