package sim_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/topics"
)

// How long a random world lasts, and the period in which its triggers are due.
const (
	dueWithin = 4 * time.Hour
	worldEnds = 9 * time.Hour
)

// dozen are zones with and without clock changes, of whole and half hours, in the west and the
// east.
var dozen = []string{
	"America/New_York", "America/Los_Angeles", "America/St_Johns", "America/Havana", "Europe/Berlin", "Europe/London",
	"Australia/Sydney", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "Asia/Kolkata", "Asia/Tokyo",
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// changesOf returns moments in the nights of 2026 in which a zone's clock changes, and one of an
// ordinary night.
func changesOf(z *time.Location) []time.Time {
	list := []time.Time{time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)}
	for at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC); at.Year() == 2026; at = at.Add(time.Hour) {
		_, before := at.Add(-time.Hour).In(z).Zone()
		if _, after := at.In(z).Zone(); before != after {
			list = append(list, at)
		}
	}
	return list
}

// document returns a wish as the document of a PUT.
func (w wish) document() string {
	doc := map[string]any{}
	if len(w.optedOut) > 0 {
		doc["opted_out_channels"] = w.optedOut
	}
	types := map[string]any{}
	for name, on := range w.unwanted {
		types[name] = false
		if len(on) > 0 {
			by := map[string]bool{}
			for _, channel := range on {
				by[channel] = false
			}
			types[name] = by
		}
	}
	doc["notification_types"] = types
	if q := w.quiet; q != nil {
		hours := map[string]any{"from": clockOf(q.from), "to": clockOf(q.to)}
		var days []string
		for _, day := range q.days {
			days = append(days, strings.ToUpper(day.String()[:2]))
		}
		if len(days) > 0 {
			hours["days"] = days
		}
		if len(q.channels) > 0 {
			hours["channels"] = q.channels
		}
		doc["quiet_hours"], doc["timezone"] = hours, q.zone.String()
	}
	addresses := map[string]any{}
	for _, channel := range w.addresses {
		addresses[channel] = map[string]any{
			"push": []map[string]string{{"provider": "fcm", "token": "phone"}}, "sms": "+4915112345678",
			"email": "ada@example.com",
		}[channel]
	}
	doc["addresses"] = addresses
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func clockOf(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// dice makes random stories. Different actions happen at different seconds of a minute. So no two
// are so close that either order would be right: emissions at 0, 20 and 40 (after retries),
// reports 10 after those, acks at 5, cancels at 15, new wishes at 25, and changes at 35.
type dice struct {
	*rand.Rand
	t     *testing.T
	start time.Time
}

func (r dice) one(n int) bool              { return r.IntN(n) == 0 }
func (r dice) minutes(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Minute }

func (r dice) some(all []string) (out []string) {
	for _, one := range all {
		if r.one(2) {
			out = append(out, one)
		}
	}
	return out
}

func (r dice) wish(from time.Time, z *time.Location) wish {
	w := wish{from: from, addresses: topics.NotificationChannels, unwanted: map[string][]string{}}
	if r.one(6) {
		w.addresses = r.some(topics.NotificationChannels)
	}
	if r.one(4) {
		w.optedOut = r.some(topics.NotificationChannels)
	}
	if r.one(3) {
		w.unwanted["news"] = r.some(topics.NotificationChannels)
	}
	if r.one(3) {
		return w
	}
	q := &quietHours{zone: z, from: 30 * r.IntN(48)}
	q.to = (q.from + 30*(1+r.IntN(20))) % (24 * 60) // up to ten hours, with or without midnight
	if r.one(2) {
		q.from, q.to = 22*60, 7*60
	}
	if r.one(3) {
		q.channels = []string{topics.NotificationChannels[r.IntN(3)]}
	}
	for day := range 7 {
		if len(q.days) == 0 && r.one(3) {
			q.days = append(q.days, time.Weekday(day))
		}
	}
	w.quiet = q
	return w
}

func (r dice) story(n int, users int) story {
	s := story{
		key: fmt.Sprintf("t%d", n), user: fmt.Sprintf("u%d", r.IntN(users)),
		kind: []string{"", "news", "code"}[r.IntN(3)],
		high: r.one(5), due: r.start.Add(10*time.Minute + r.minutes(int(dueWithin/time.Minute))),
	}
	for i := range 1 + r.IntN(4) {
		one := step{channel: topics.NotificationChannels[r.IntN(3)]}
		if i > 0 {
			one.after = []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, time.Hour}[r.IntN(4)]
		}
		s.steps = append(s.steps, one)
		var answers [2]worker.Outcome
		for k := range answers {
			answers[k] = []worker.Outcome{
				worker.OutcomeAccepted, worker.OutcomeAccepted, worker.OutcomeAccepted, worker.OutcomeFailed,
				worker.OutcomeRetry, worker.OutcomeRetry,
			}[r.IntN(6)]
		}
		s.answers = append(s.answers, answers)
		var report time.Duration
		if r.one(4) {
			report = r.minutes(20) + 10*time.Second
		}
		s.reports = append(s.reports, report)
	}
	if r.one(5) {
		s.ack = s.due.Add(r.minutes(300) - r.minutes(60) + 5*time.Second)
	}
	if r.one(8) {
		s.cancel = s.due.Add(r.minutes(300) - r.minutes(60) + 15*time.Second)
	}
	if r.one(3) {
		s.change = []string{"replace", "snooze", "erase"}[r.IntN(3)]
		s.changed = s.due.Add(r.minutes(120) - r.minutes(60) + 35*time.Second)
		s.newDue = s.changed.Add(r.minutes(90) + 25*time.Second)
		if s.changed.Before(r.start.Add(time.Minute)) {
			s.change = ""
		} else if s.cancel.Before(s.changed) {
			s.cancel = time.Time{}
		}
	}
	// An ack before the register concerns no trigger.
	if s.ack.Before(r.start.Add(time.Minute)) {
		s.ack = time.Time{}
	}
	if s.cancel.Before(r.start.Add(time.Minute)) {
		s.cancel = time.Time{}
	}
	return s
}

// near is the largest time difference between model and world: the time that the world's work
// takes.
const near = 3 * time.Second

// TestDispatchModel uses random preferences, escalations, opt-outs, quiet hours, retries, acks,
// cancels, replacements, snoozes, erasures and reports. The engine with its workers and the model
// must agree on which user gets which message, when, and by which channel. WATERCLOCK_TEST_SEED is
// the first seed, WATERCLOCK_TEST_SEEDS the number of seeds.
func TestDispatchModel(t *testing.T) {
	first, n := seeds(2)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomDispatch(t, first+i) })
		})
	}
}

func randomDispatch(t *testing.T, seed uint64) {
	const users, triggers = 36, 400
	d := newDispatch(t, seed, nil)
	r := dice{rand.New(rand.NewPCG(seed, 7)), t, d.start}
	end := d.start.Add(worldEnds)
	wishes := map[string][]wish{}
	var acts []act
	for u := range users {
		user, z := fmt.Sprintf("u%d", u), zone(t, dozen[u%len(dozen)])
		nights := changesOf(z)
		d.clock(user, d.start.Add(r.minutes(5*60)), nights[r.IntN(len(nights))])
		from := d.start.Add(-30 * time.Second)
		for range 1 + r.IntN(3) {
			w := r.wish(from, z)
			w.ahead = d.ahead[user]
			wishes[user] = append(wishes[user], w)
			acts = append(acts, act{from, func() { d.put(user, w.document()) }})
			from = from.Truncate(time.Minute).Add(time.Minute + r.minutes(6*60) + 25*time.Second)
		}
	}
	stories := map[string]story{}
	for n := range triggers {
		s := r.story(n, users)
		stories[s.key] = s
		acts = append(append(acts, act{d.start, func() { d.register(s, s.due, "x") }}), d.reacts(s)...)
	}
	d.answer = func(key string, step, attempt int) (worker.Outcome, time.Duration) {
		s := stories[key]
		outcome := s.answers[step][min(attempt, 2)-1]
		if outcome != worker.OutcomeAccepted {
			return outcome, 0
		}
		return outcome, s.reports[step]
	}
	d.run(slices.DeleteFunc(acts, func(a act) bool { return a.at.After(end) }))
	d.until(end.Add(3 * time.Second)) // between two actions, because the results are compared
	total := 0
	for _, s := range stories {
		total += d.agrees(s, wishes[s.user], end)
	}
	d.CheckInvariants()
	t.Logf("seed %d: %d messages of %d triggers", seed, total, triggers)
	if total < triggers/2 {
		t.Errorf("seed %d: %d messages of %d triggers: hardly anything was compared", seed, total, triggers)
	}
}

// register sends the register of a story.
func (d *dispatch) register(s story, due time.Time, body string) {
	d.t.Helper()
	priority := "normal"
	if s.high {
		priority = "high"
	}
	tags := `{}`
	if s.kind != "" {
		tags = fmt.Sprintf(`{"type":%q}`, s.kind)
	}
	d.SendFree(d.Home(s.key), s.key, fmt.Sprintf(`{"op":"register","delay":"%dms","user_id":%q,"priority":%q,`+
		`"tags":%s,"payload":{"body":%q},"escalation":%s}`,
		time.Until(due).Milliseconds(), s.user, priority, tags, body, escalationOf(s.steps)))
}

// agrees compares a story with its model, up to an end. It returns the number of messages.
func (d *dispatch) agrees(s story, wishes []wish, end time.Time) int {
	d.t.Helper()
	end = end.Add(-50 * time.Second) // nothing is planned for that time
	beyond := func(m message) bool { return m.at.After(end) }
	want := inOrder(slices.DeleteFunc(model(s, wishes), beyond))
	got := inOrder(slices.DeleteFunc(d.messages(s.key), beyond))
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		off := got[i].at.Sub(want[i].at)
		same = got[i].step == want[i].step && got[i].channel == want[i].channel && off > -time.Millisecond && off < near
	}
	if !same {
		d.t.Errorf("%+v\nwishes %+v\ngot  %s\nwant %s", s, wishes, shown(got), shown(want))
	}
	return len(got)
}

// inOrder sorts messages by time. Two occurrences may have some at the same time, in any order.
func inOrder(all []message) []message {
	slices.SortStableFunc(all, func(a, b message) int {
		return cmp.Or(a.at.Truncate(10*time.Second).Compare(b.at.Truncate(10*time.Second)), a.step-b.step)
	})
	return all
}

func shown(all []message) string {
	var out []string
	for _, m := range all {
		out = append(out, fmt.Sprintf("%d %s %s", m.step, m.channel, m.at.UTC().Format("01-02T15:04:05.000")))
	}
	return strings.Join(out, ", ")
}
