package gateway

import (
	"bytes"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/gateway/acklink"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// ackHTML is the page of a link, for people; it loads nothing from anywhere.
//
//go:embed ack_page.html
var ackHTML string

var ackTemplate = template.Must(template.New("ack").Parse(ackHTML))

// ackPage is what somebody reads who followed a link. It has nothing of the trigger: whoever
// scans mails follows links, too.
type ackPage struct {
	status              int
	Title, Text, Button string
}

var (
	ackAsk = &ackPage{
		http.StatusOK, "Did you get it?", "Confirm that you have seen this message, so that we do not follow it up.",
		"Yes, I have seen it",
	}
	ackDone  = &ackPage{http.StatusOK, "Thank you", "We have noted that you have seen this message.", ""}
	ackEnded = &ackPage{
		http.StatusOK, "Thank you",
		"This message needs no confirmation any more. Nothing further will be sent about it.", "",
	}
	ackExpired = &ackPage{http.StatusGone, "This link has expired", "Nothing was changed.", ""}
	ackForged  = &ackPage{http.StatusNotFound, "This link is not valid", "Part of it may be missing.", ""}
	ackNothing = &ackPage{http.StatusNotFound, "There is nothing to confirm", "The message is no longer open.", ""}
	ackOften   = &ackPage{
		http.StatusTooManyRequests, "Just a moment", "There were too many requests. Please try again in a minute.",
		"Try again",
	}
	ackUndecided = &ackPage{
		http.StatusServiceUnavailable, "Something went wrong", "Please try again in a minute.", "Try again",
	}
)

// untilNextLink is the minute of which these pages speak.
const untilNextLink = time.Minute

var errNoAckLinks = problem.New(http.StatusNotFound, trigger.CodeNotFound, "",
	"links to acknowledge are not enabled: set ack.secret and public_url")

// How often one occurrence can be acknowledged by links: five times at once, then every 12 s. Each
// is a command at the tenant's rate, and whoever has one link must not use that up.
const (
	ackRate  = 1.0 / 12 // a second
	ackBurst = 60       // seconds' worth
)

func newAckRates(o *Options) *rateLimits {
	return newRateLimits(func(string) float64 { return ackRate }, ackBurst, o.Now)
}

func ackRoutes(p *parts) []route {
	page := func(id, summary string) operation {
		return operation{
			id: id, summary: summary, answerType: "text/html",
			answers: answers{200: of[string]()},
		}
	}
	return []route{
		{
			method: http.MethodGet, pattern: acklink.Path + "{token}", handle: p.ackLinks.getAckLink,
			doc: page("ackPage", "The page of a link to acknowledge: it shows a button, and changes nothing"),
		},
		{
			method: http.MethodPost, pattern: acklink.Path + "{token}", handle: p.ackLinks.postAckLink,
			doc: page("ackByLink", "Acknowledge the occurrence that the link names"),
		},
	}
}

// ackLinks acknowledges occurrences by link.
type ackLinks struct {
	writer *commandWriter

	noRoom  func() string
	now     func() time.Time
	rates   *rateLimits // by occurrence
	secrets func() []string
}

func (s *ackLinks) getAckLink(w http.ResponseWriter, r *request) error {
	if s.secrets == nil {
		return errNoAckLinks
	}
	_, refused := s.openAckLink(r)
	if refused != nil {
		return refused.send(w, r)
	}
	return ackAsk.send(w, r)
}

// postAckLink acknowledges as the trigger's tenant would. The second time changes nothing.
func (s *ackLinks) postAckLink(w http.ResponseWriter, r *request) error {
	if s.secrets == nil {
		return errNoAckLinks
	}
	dueID, refused := s.openAckLink(r)
	if refused != nil {
		return refused.send(w, r)
	}
	key, occurrence, _, err := topics.ParseDueID(dueID)
	if err != nil {
		return ackForged.send(w, r)
	}
	if s.noRoom() != "" {
		return ackUndecided.send(w, r)
	}
	if s.rates.take(string(key)+"@"+occurrence) != nil {
		return ackOften.send(w, r)
	}
	own := *r
	own.Request = r.Clone(r.Context())
	own.Header = http.Header{} // no condition of a browser's
	own.who = auth.Caller{Tenant: key.Tenant(), Name: "ack link", Role: auth.Writer}
	fs := fields{}
	fs.set("occurrence", occurrence)
	_, v, err := s.writer.apply(&own, trigger.OpAck, key.ID(), fs)
	return ackOutcome(v, err).send(w, r)
}

// ackOutcome is the page for what became of the command. One that is durable and not decided
// yet counts as done.
func ackOutcome(v verdict, err error) *ackPage {
	p, refused := errors.AsType[*problem.Problem](err)
	switch {
	case refused && p.Status == http.StatusNotFound:
		return ackNothing
	case err != nil:
		return ackUndecided
	case v.decided && (v.state == nil || v.state.Status == trigger.Unknown):
		return ackNothing
	case v.decided && !v.has(trigger.EscalationStopped):
		return ackEnded
	}
	return ackDone
}

// openAckLink is the due event of a link, or the page that says why there is none.
func (s *ackLinks) openAckLink(r *request) (dueID string, refused *ackPage) {
	l, err := acklink.Open(s.secrets(), r.names["token"], s.now())
	switch {
	case errors.Is(err, acklink.ErrExpired):
		return "", ackExpired
	case err != nil:
		return "", ackForged
	}
	return l.DueID, nil
}

// send answers with the page. A refusal is a problem, as elsewhere, unless a browser asks.
func (p *ackPage) send(w http.ResponseWriter, r *request) error {
	if p.status != http.StatusOK && !strings.Contains(r.Header.Get("Accept"), "text/html") {
		text := p.Title + ". " + p.Text
		switch p.status {
		case http.StatusServiceUnavailable:
			return problem.Unavailable(nil, text).Retry(untilNextLink)
		case http.StatusTooManyRequests:
			return problem.TooMany(trigger.CodeQuotaExceeded, text, untilNextLink)
		}
		return problem.New(p.status, trigger.CodeNotFound, "", text)
	}
	var b bytes.Buffer
	if err := ackTemplate.Execute(&b, p); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; "+
		"frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer") // the address is the credential
	if p.status == http.StatusServiceUnavailable || p.status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(int(untilNextLink.Seconds())))
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(b.Bytes())
	return nil
}
