package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify/templates"
)

// The codes of receipts that this worker makes itself. Providers and package consent
// have more.
const (
	CodePayload        = "invalid_payload"    // the payload is no notification
	CodeNoAddress      = "no_address"         // neither to nor the preferences say where
	CodeInvalidAddress = "invalid_address"    // to is none of the channel
	CodeNoProvider     = "no_provider"        // nobody here sends to this kind of address
	CodeNoTemplate     = "template_not_found" // template_id names none
	CodeTemplate       = "template_failed"    // the template does not fit the data
	CodePaused         = "provider_paused"    // the provider has asked for fewer messages
	CodeShare          = "tenant_busy"        // not sent: the tenant has its share, and others wait
)

// payload is what a notification's payload says. Other fields are the user's own.
type payload struct {
	Title        string
	Body         string
	DeepLink     string
	TemplateID   string
	TemplateData map[string]any
	To           []string
	Data         map[string]string
	Locale       string
}

// maxTo bounds the push tokens that a payload may name.
const maxTo = 20

// decodePayload reads a payload. The error is for whoever scheduled it, and repeats
// nothing of it.
func decodePayload(e *worker.DueEvent) (p payload, err error) {
	if len(e.Payload) == 0 {
		return p, errors.New(`the trigger has no payload: write {"title":"…","body":"…"}`)
	}
	d := json.NewDecoder(bytes.NewReader(e.Payload))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil || all == nil {
		return p, errors.New(`the payload is no JSON object: write {"title":"…","body":"…"}`)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("something follows the JSON object of the payload")
	}
	r := fields{all: all}
	p = payload{
		Title: r.text("title"), Body: r.text("body"), DeepLink: r.text("deep_link"), TemplateID: r.text("template_id"),
		Locale: r.text("locale"), To: r.texts("to"), Data: r.pairs("data"), TemplateData: r.object("template_data"),
	}
	switch {
	case r.err != nil:
		return p, r.err
	case p.Title == "" && p.Body == "" && p.TemplateID == "":
		return p, errors.New("the payload has none of title, body and template_id")
	}
	return p, nil
}

// fields reads the fields of an object, and keeps the first error.
type fields struct {
	all map[string]any
	err error
}

func (r *fields) wrong(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s of the payload is no %s", name, want)
	}
}

func (r *fields) text(name string) string {
	switch v := r.all[name].(type) {
	case nil:
		return ""
	case string:
		return v
	}
	r.wrong(name, "text")
	return ""
}

// texts is one text, or a list of them.
func (r *fields) texts(name string) (out []string) {
	switch v := r.all[name].(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				r.wrong(name, "list of texts")
				return nil
			}
			out = append(out, text)
		}
		if len(out) <= maxTo {
			return out
		}
		r.wrong(name, fmt.Sprintf("list of at most %d addresses", maxTo))
		return nil
	}
	r.wrong(name, "text")
	return nil
}

// pairs are an object of texts. Numbers, true and false are spelled as in JSON; push
// services take texts only.
func (r *fields) pairs(name string) map[string]string {
	all := r.object(name)
	if all == nil {
		return nil
	}
	out := make(map[string]string, len(all))
	for key, v := range all {
		switch v := v.(type) {
		case nil:
		case string, bool, int64, float64:
			out[key] = fmt.Sprint(v)
		default:
			r.wrong(name, "object of texts")
			return nil
		}
	}
	return out
}

func (r *fields) object(name string) map[string]any {
	switch v := r.all[name].(type) {
	case nil:
		return nil
	case map[string]any:
		return templates.Plain(v).(map[string]any)
	}
	r.wrong(name, "object")
	return nil
}
