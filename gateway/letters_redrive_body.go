package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// RedriveBody says which dead letters are to be tried again: those of a trigger,
// those that a filter names, or all.
type RedriveBody struct {
	TriggerID      string  `json:"trigger_id,omitempty"      doc:"Of this trigger; found without a history too. At most 128 can be under way: one more fails the oldest with code overrun, so with more letters give a low rate"`
	CeID           string  `json:"ce_id,omitempty"           doc:"With trigger_id: only this occurrence"`
	Tenant         string  `json:"tenant,omitempty"          doc:"Operators: of this tenant, else of all"`
	Channel        string  `json:"channel,omitempty"`
	Code           string  `json:"code,omitempty"`
	Endpoint       string  `json:"endpoint,omitempty"        doc:"An origin such as https://example.com"`
	From           string  `json:"from,omitempty"            doc:"Failed at or after this instant"`
	To             string  `json:"to,omitempty"              doc:"Failed before this instant; default now"`
	All            bool    `json:"all,omitempty"             doc:"Needed where no filter is given"`
	Rate           float64 `json:"rate,omitempty"            doc:"How many a second; default 100"                                   minimum:"0.01" maximum:"100000"`
	DryRun         bool    `json:"dry_run,omitempty"         doc:"Only count; it takes from the tenant's rate of reads, as a list does"`
	IncludeExpired bool    `json:"include_expired,omitempty" doc:"Send what is past its expires_at too"`
	Note           string  `json:"note,omitempty"            doc:"Why; the detail of the event of each" minLength:"1" maxLength:"512"`
	Cursor         string  `json:"cursor,omitempty"          doc:"Of a line of an earlier answer with the same filter: go on there"`
}

// redrive reads a body.
func (s *redrives) redrive(r *request, fs fields) (*redrive, error) {
	var b RedriveBody
	for i := range fs {
		if err := b.set(fs[i].name, fs[i].value); err != nil {
			return nil, err
		}
	}
	invalid := func(field, detail string) error {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, field, detail)
	}
	filtered := b.Tenant != "" || b.Channel != "" || b.Code != "" || b.Endpoint != "" || b.From != "" || b.To != ""
	switch {
	case b.CeID != "" && b.TriggerID == "":
		return nil, invalid("ce_id", "ce_id goes with trigger_id")
	case b.TriggerID != "" && (b.All || b.Channel != "" || b.Code != "" || b.Endpoint != "" || b.From != "" ||
		b.To != "" || b.Cursor != ""):
		return nil, invalid("trigger_id", "give trigger_id, or a filter, not both")
	case b.TriggerID == "" && !r.who.May(auth.Write):
		return nil, s.auditor.forbid(r, auth.Write, "dead letters by a filter are redriven by")
	case b.TriggerID == "" && !filtered && !b.All:
		return nil, invalid("all", "name what to redrive: trigger_id, one of tenant, channel, code, endpoint, "+
			`from, to, or "all": true`)
	}
	if err := topics.CheckNote(b.Note); err != nil {
		return nil, err
	}
	r.act.because(b.Note)
	if _, key, err := r.letterTrigger(b.Tenant, b.TriggerID); err == nil {
		r.act.to(trigger.Key(key))
	}
	job := &redrive{s: s, r: r, id: b.TriggerID, ceID: b.CeID, dry: b.DryRun, expired: b.IncludeExpired, note: b.Note}
	job.q = topics.LetterQuery{Channel: b.Channel, Code: b.Code}
	job.content = letterContents{from: s.letters.records, ahead: map[int32][]*kgo.Record{}}
	var err error
	if job.q.Endpoint, err = letterEndpoint(b.Endpoint); err != nil {
		return nil, asField(err)
	}
	if job.q.Tenant, err = s.auditor.tenantOf(r, "dead letters", b.Tenant); err != nil {
		return nil, err
	}
	if job.q.From, err = instantField("from", b.From); err != nil {
		return nil, err
	}
	if job.q.To, err = instantField("to", b.To); err != nil {
		return nil, err
	}
	job.sealed = letterQuestion{what: "redrive", caller: r.who.Tenant, q: job.q}
	if job.q.After, err = s.letters.cursors.openLetter(&job.sealed, b.Cursor); err != nil {
		return nil, asField(err)
	}
	if job.q.To == 0 { // what fails again meanwhile is for another time
		job.q.To = trigger.At(s.now()) + 1
	}
	perSecond := cmp.Or(b.Rate, defaultRedriveRate)
	job.chunk = int(min(max(perSecond, 1), maxRedriveChunk))
	job.pace = rate.NewLimiter(rate.Limit(perSecond), job.chunk)
	job.pace.AllowN(time.Now(), job.chunk) // no burst at the beginning
	job.q.Limit = job.chunk
	if b.TriggerID == "" {
		return job, s.letters.lettersThere()
	}
	return job, nil
}

// asField is a problem of the body where it would be one of the query.
func asField(err error) error {
	p := *problem.Of(err)
	p.Status, p.Title = http.StatusUnprocessableEntity, http.StatusText(http.StatusUnprocessableEntity)
	return &p
}

// set reads one member of the body. null counts as absent.
func (b *RedriveBody) set(name string, v jsontext.Value) error {
	texts := map[string]*string{
		"trigger_id": &b.TriggerID, "ce_id": &b.CeID, "tenant": &b.Tenant, "channel": &b.Channel, "code": &b.Code,
		"endpoint": &b.Endpoint, "from": &b.From, "to": &b.To, "note": &b.Note,
		"cursor": &b.Cursor,
	}
	flags := map[string]*bool{"all": &b.All, "dry_run": &b.DryRun, "include_expired": &b.IncludeExpired}
	invalid := func(detail string) error {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, name, name+" "+detail)
	}
	text, flag := texts[name], flags[name]
	switch {
	case text == nil && flag == nil && name != "rate":
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, name,
			printable.Quoted(name)+" is not a field here; there are trigger_id, ce_id, tenant, channel, code, "+
				"endpoint, from, to, all, rate, dry_run, include_expired, note and cursor")
	case v.Kind() == 'n':
		return nil
	case text != nil:
		if v.Kind() != '"' {
			return invalid("must be a string")
		}
		plain, err := jsontext.AppendUnquote(nil, v)
		if err != nil || len(plain) == 0 {
			return invalid("is empty: omit it")
		}
		*text = string(plain)
	case flag != nil:
		if v.Kind() != 't' && v.Kind() != 'f' {
			return invalid("must be true or false")
		}
		*flag = v.Kind() == 't'
	default:
		if err := json.Unmarshal(v, &b.Rate); err != nil || b.Rate < minRedriveRate || b.Rate > maxRedriveRate {
			return invalid(fmt.Sprintf("is a number from %g to %d, dead letters a second", minRedriveRate,
				maxRedriveRate))
		}
	}
	return nil
}

func instantField(name, text string) (trigger.Instant, error) {
	if text == "" {
		return 0, nil
	}
	ms, err := calendar.ParseInstant(text)
	if err != nil {
		return 0, problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, name,
			name+" is an instant such as 2026-11-20T14:00:00Z")
	}
	return trigger.Instant(cmp.Or(ms, -1)), nil
}
