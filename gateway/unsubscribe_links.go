package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/gateway/unsubscribe"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/trigger"
)

// Pages of links to opt out. They name neither the user nor the type.
var (
	optOutAsk = &ackPage{
		http.StatusOK, "Unsubscribe?", "You will get no more messages of this kind on this channel.", "Unsubscribe",
	}
	optOutDone = &ackPage{
		http.StatusOK, "You are unsubscribed", "You will get no more messages of this kind on this channel.", "",
	}
)

var errNoOptOuts = problem.New(http.StatusNotFound, trigger.CodeNotFound, "",
	"links to unsubscribe are not enabled: set ack.secret and public_url, and store preferences")

func unsubscribeRoutes(p *parts) []route {
	page := func(id, summary string) operation {
		return operation{id: id, summary: summary, answerType: "text/html", answers: answers{200: of[string]()}}
	}
	return []route{
		{
			method: http.MethodGet, pattern: unsubscribe.Path + "{token}", handle: p.optOuts.getUnsubscribe,
			doc: page("unsubscribePage", "The page of a link to unsubscribe: it shows a button, and changes nothing"),
		},
		{
			method: http.MethodPost, pattern: unsubscribe.Path + "{token}", handle: p.optOuts.postUnsubscribe,
			doc: page("unsubscribe",
				"Opt the user of the link out, as header List-Unsubscribe-Post asks for (RFC 8058)"),
		},
	}
}

// optOutLinks unsubscribes users by link.
type optOutLinks struct {
	log        *slog.Logger
	rates      *rateLimits
	readWithin time.Duration
	secrets    func() []string
	store      preferences.Store
	prefs      *preferenceCalls
}

func (s *optOutLinks) getUnsubscribe(w http.ResponseWriter, r *request) error {
	if err := s.noOptOuts(); err != nil {
		return err
	}
	if _, err := unsubscribe.Open(s.secrets(), r.names["token"]); err != nil {
		return ackForged.send(w, r)
	}
	return optOutAsk.send(w, r)
}

// postUnsubscribe writes the opt-out. The second time is the same as the first.
func (s *optOutLinks) postUnsubscribe(w http.ResponseWriter, r *request) error {
	if err := s.noOptOuts(); err != nil {
		return err
	}
	l, err := unsubscribe.Open(s.secrets(), r.names["token"])
	if err != nil {
		return ackForged.send(w, r)
	}
	if s.rates.take("unsubscribe "+l.Tenant+"/"+l.User) != nil {
		return ackOften.send(w, r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	user := preferences.User{Tenant: l.Tenant, ID: l.User}
	mended := false
	err = s.prefs.withPreferences(ctx, l.Tenant, func() (err error) {
		_, mended, err = preferences.OptOut(ctx, s.store, user, l.Channel, l.Type)
		return err
	})
	if err != nil {
		s.log.Warn("an opt-out by a link was not written", "error", err)
		return ackUndecided.send(w, r)
	}
	if mended {
		s.log.Warn("preferences could not be parsed; an opt-out replaced them by what could be read",
			"tenant", l.Tenant, "user", l.User)
	}
	return optOutDone.send(w, r)
}

// noOptOuts says why there are no links here; nil if there are.
func (s *optOutLinks) noOptOuts() error {
	if s.store == nil || s.secrets == nil {
		return errNoOptOuts
	}
	return nil
}
