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

// The codes of receipts that this worker makes itself. Providers and package consent have others.
const (
	CodePayload        = "invalid_payload"    // the payload is not a notification
	CodeNoAddress      = "no_address"         // neither to nor the preferences have an address
	CodeInvalidAddress = "invalid_address"    // to is not an address of the channel
	CodeNoProvider     = "no_provider"        // no provider here serves this kind of address
	CodeNoTemplate     = "template_not_found" // there is no template of this template_id
	CodeTemplate       = "template_failed"    // the template does not fit the data
	CodePaused         = "provider_paused"    // the provider has asked for fewer messages
	CodeShare          = "tenant_busy"        // not sent: the tenant uses its share, or all connections are in use
)

// payload has the fields of a notification's payload. Other fields are the user's own.
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

// decodePayload decodes a payload. The error is for whoever scheduled the trigger, and repeats
// nothing of the payload.
func decodePayload(e *worker.DueEvent) (p payload, err error) {
	if len(e.Payload) == 0 {
		return p, errors.New(`the trigger has no payload: write {"title":"…","body":"…"}`)
	}
	d := json.NewDecoder(bytes.NewReader(e.Payload))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil || all == nil {
		return p, errors.New(`the payload is not a JSON object: write {"title":"…","body":"…"}`)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("the payload has data after its JSON object")
	}
	r := fields{all: all}
	p = payload{
		Title: r.text("title"), Body: r.text("body"), DeepLink: r.text("deep_link"), TemplateID: r.text("template_id"),
		Locale: r.text("locale"), To: r.texts("to"), Data: r.pairs("data"), TemplateData: r.data("template_data"),
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

// texts returns one text, or a list of texts.
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

// pairs returns an object of strings. Numbers, true and false are written as in JSON, because
// push services accept only strings.
func (r *fields) pairs(name string) map[string]string {
	all := r.object(name)
	if all == nil {
		return nil
	}
	out := make(map[string]string, len(all))
	for key, v := range all {
		switch v := v.(type) {
		case nil:
		case string, bool, json.Number:
			out[key] = fmt.Sprint(v)
		default:
			r.wrong(name, "object of texts")
			return nil
		}
	}
	return out
}

// data returns an object for templates.
func (r *fields) data(name string) map[string]any {
	all := r.object(name)
	if all == nil {
		return nil
	}
	return templates.Plain(all).(map[string]any)
}

func (r *fields) object(name string) map[string]any {
	switch v := r.all[name].(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	}
	r.wrong(name, "object")
	return nil
}
