package consent

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/preferences"
)

// limited reports whether the channel bounds what one user gets.
func (o *Options) limited() bool { return o.DedupWindow > 0 || len(o.MaxPerUser) > 0 }

// claim checks the limits for the events that the preferences let through.
func (g *Gate) claim(ctx context.Context, b *batch, asked []*worker.DueEvent, now time.Time) error {
	if !g.opts.limited() {
		return nil
	}
	var out []*worker.DueEvent
	var list []preferences.Message
	for _, e := range asked {
		if b.verdicts[e].Answer == nil {
			out, list = append(out, e), append(list, g.message(e))
		}
	}
	if len(out) == 0 {
		return nil
	}
	codes, err := g.opts.Store.Admit(ctx, now, g.limits(), list)
	if err != nil {
		return err
	}
	for i, e := range out {
		if codes[i] != "" {
			v := b.verdicts[e]
			r := worker.Suppress(codes[i]).WithDetail(enough[codes[i]])
			v.Answer = &r
			b.verdicts[e] = v
		}
	}
	return nil
}

// enough has the details of receipts.
var enough = map[string]string{
	preferences.CodeDuplicate: "not sent: the user has had one of this type within dedup_window",
	preferences.CodeCapped:    "not sent: the user has had as many as max_per_user allows",
}

func (g *Gate) limits() preferences.Limits {
	return preferences.Limits{Window: g.opts.DedupWindow, Caps: g.opts.MaxPerUser}
}

// message returns a due event in the form that the limits need.
func (g *Gate) message(e *worker.DueEvent) preferences.Message {
	occurrence := e.ID
	if i := strings.LastIndexByte(e.ID, '#'); i >= 0 {
		occurrence = e.ID[:i]
	}
	return preferences.Message{
		User: userOf(e), Channel: g.opts.Channel, ID: storable(e.ID), Occurrence: storable(occurrence),
		Type: storable(typeOf(e)), Asked: askedFor(e), High: e.High,
	}
}

// askedFor reports whether somebody asked for this occurrence: by a snooze, or by a run off
// schedule.
func askedFor(e *worker.DueEvent) bool {
	return strings.HasPrefix(e.Occurrence, "snz-") || strings.HasPrefix(e.Occurrence, "run-")
}

// storable quotes a text that PostgreSQL would refuse, because the refusal would fail the whole
// batch.
func storable(s string) string {
	if utf8.ValidString(s) && !slices.ContainsFunc([]rune(s), unicode.IsControl) {
		return s
	}
	return strconv.QuoteToASCII(s)
}

// After handles the result of a due event that was to be sent. A permanent failure does not count
// against its user, nor does what was suppressed at its first attempt.
func (g *Gate) After(ctx context.Context, e *worker.DueEvent, r worker.Result) {
	u := userOf(e)
	unsent := r.Outcome == worker.OutcomeFailed || r.Outcome == worker.OutcomeSuppressed && e.Attempt == 1
	if !unsent || g.opts.Store == nil || !g.opts.limited() || u.Check() != nil {
		return
	}
	err := g.ask(context.WithoutCancel(ctx), func(ctx context.Context) error {
		return g.opts.Store.Release(ctx, g.message(e))
	})
	if err != nil {
		g.opts.Logger.Warn("a message that was not sent still counts against its user until its claim expires",
			"channel", g.opts.Channel, "ce_id", e.ID, "error", err)
	}
}
