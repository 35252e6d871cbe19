package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/explain"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func newExplain(a *app) *cobra.Command {
	n, since, occurrence := 5, 24*time.Hour, ""
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Explain what became of a trigger: why it fired, why not, or when it will",
		Args:  oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if rank(c.Source("brokers")) > rank(c.Source("url")) {
				return a.explainKafka(cmd.Context(), c, args[0], occurrence, since, n)
			}
			if occurrence != "" {
				return a.explainOccurrence(cmd.Context(), newAPI(c), args[0], occurrence)
			}
			x, err := fetchExplanation(cmd.Context(), newAPI(c), args[0], n)
			if err != nil && x.forgotten() && exitOf(err) == exitNotFound {
				return a.explainSentence(x)
			}
			if err != nil {
				return a.unknownKey(cmd.Context(), newAPI(c), args[0], err)
			}
			return a.explain(x)
		},
	}
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many occurrences to look ahead")
	cmd.Flags().StringVar(&occurrence, "occurrence", "", "what became of this one, as events and ce_id name it")
	cmd.Flags().DurationVar(&since, "since", since, "over Kafka: how far back to read events")
	return cmd
}

// explanation is the state of one trigger from the API, and reasons that explain it in words.
type explanation struct {
	apiSentence
	Trigger     map[string]any `json:"trigger"`
	Why         []reason       `json:"why"`
	Occurrences []upcoming     `json:"occurrences"`
	Events      []topics.Event `json:"events"`
	Unknown     string         `json:"unknown,omitempty"` // what could not be found out, and why
}

// apiSentence is the answer of GET /v1/triggers/{id}/explain. Older APIs do not have it.
type apiSentence struct {
	Code     string     `json:"code,omitempty"`
	Sentence string     `json:"sentence,omitempty"`
	Evidence []evidence `json:"evidence,omitempty"`
	Next     string     `json:"next,omitempty"`
	History  *bool      `json:"history,omitempty"`
}

type evidence struct {
	EventID string `json:"event_id,omitempty"`
	Source  string `json:"source"`
	Text    string `json:"text"`
}

// forgotten reports whether the API no longer has the trigger but knows what happened to it.
func (v *apiSentence) forgotten() bool {
	switch explain.Code(v.Code) {
	case "", explain.Unknown, explain.Rejected: // the error already says why a command was refused
		return false
	}
	return true
}

// reason is one factor that decides when the trigger fires.
type reason struct {
	About string `json:"about"`
	Says  string `json:"says"`
}

// upcoming is one item of GET /v1/triggers/{id}/occurrences.
type upcoming struct {
	At         string `json:"at"`
	LocalTime  string `json:"local_time,omitempty"`
	Occurrence string `json:"occurrence"`
	Note       string `json:"note,omitempty"`
	LeftOut    bool   `json:"left_out,omitempty"` // it does not fire; only occurrences has such items
}

func fetchExplanation(ctx context.Context, from *api, key string, n int) (x explanation, err error) {
	err = from.get(ctx, triggerPath(key), &x.Trigger)
	if err == nil || exitOf(err) == exitNotFound {
		// Ignore the error: an older API does not have this route.
		_ = from.get(ctx, triggerPath(key)+"/explain", &x.apiSentence)
	}
	if err != nil {
		return x, err
	}
	ahead, err := fetchOccurrences(ctx, from, key, n)
	if err != nil && exitOf(err) != exitNotFound {
		return x, err
	}
	x.Occurrences = ahead.Items
	if x.Events, err = lastEvents(ctx, from, key); err != nil {
		x.Unknown = "what happened to it: " + err.Error() // the owner has returned everything else
	}
	x.Why, err = reasons(x.Trigger, x.Events, time.Now())
	return x, err
}

func fetchOccurrences(ctx context.Context, from *api, key string, n int) (ahead comingOccurrences, err error) {
	err = from.get(ctx, fmt.Sprintf("%s/occurrences?n=%d", triggerPath(key), n), &ahead)
	return ahead, err
}

// eventsShown bounds the events shown for a long life. `events tail` has all of them.
const eventsShown = 20

// lastEvents reads all events of a trigger and keeps the newest. It returns none if the trigger
// has no events or the API has no history.
func lastEvents(ctx context.Context, from *api, key string) (last []topics.Event, err error) {
	for cursor := ""; ; {
		var page struct {
			Items      []topics.Event `json:"items"`
			NextCursor string         `json:"next_cursor"`
		}
		path := triggerPath(key) + "/events?limit=1000&cursor=" + cursor
		if err := from.get(ctx, path, &page); err != nil {
			if exitOf(err) == exitNotFound {
				return last, nil
			}
			return nil, err
		}
		last = append(last, page.Items...)
		last = last[max(0, len(last)-eventsShown):]
		if cursor = page.NextCursor; cursor == "" {
			return last, nil
		}
	}
}

func (a *app) explain(x explanation) error {
	if a.out.format != "table" {
		return a.out.json(x)
	}
	w := a.out.w
	fmt.Fprintln(w, clean(headline(x.Trigger, time.Now())))
	if x.Sentence != "" {
		fmt.Fprintln(w, clean(x.Sentence))
	}
	fmt.Fprintln(w)
	for _, r := range x.Why {
		fmt.Fprintln(w, clean(fmt.Sprintf("  %-10s %s", r.About, r.Says)))
	}
	a.printOccurrences(x.Occurrences)
	if len(x.Events) > 0 {
		fmt.Fprintln(w, "\nwhat happened")
	}
	for i := range x.Events {
		fmt.Fprintln(w, clean(fmt.Sprintf("  %s  %s", x.Events[i].OccurredAt, explain.Words(&x.Events[i]))))
	}
	if x.Unknown != "" {
		a.note("not known: %s", x.Unknown)
	}
	return nil
}

func (a *app) printOccurrences(list []upcoming) {
	if len(list) > 0 {
		fmt.Fprintln(a.out.w, "\nnext occurrences")
	}
	for _, o := range list {
		fmt.Fprintln(a.out.w, clean(strings.TrimRight(fmt.Sprintf("  %s  %s  %s", o.At, o.LocalTime, o.Note), " ")))
	}
}

// explainOccurrence prints what became of one occurrence.
func (a *app) explainOccurrence(ctx context.Context, from *api, key, occurrence string) error {
	var x explanation
	path := triggerPath(key) + "/explain?occurrence=" + url.QueryEscape(occurrence)
	if err := from.get(ctx, path, &x.apiSentence); err != nil {
		return a.unknownKey(ctx, from, key, err)
	}
	if explain.Code(x.Code) == explain.Unknown {
		return &failure{Exit: exitNotFound, Msg: key + ": not_found: " + clean(x.Sentence)}
	}
	return a.explainSentence(x)
}

// explainSentence prints what happened to a trigger that the API does not show. Either it was
// erased, or its record is gone, or the user named only brokers.
func (a *app) explainSentence(x explanation) error {
	if a.out.format != "table" {
		return a.out.json(struct {
			apiSentence
			Occurrences []upcoming `json:"occurrences,omitempty"`
		}{x.apiSentence, x.Occurrences})
	}
	fmt.Fprintln(a.out.w, clean(x.Sentence))
	a.printOccurrences(x.Occurrences)
	if len(x.Evidence) > 0 {
		fmt.Fprintln(a.out.w, "\nevidence")
	}
	for _, e := range x.Evidence {
		fmt.Fprintln(a.out.w, clean("  "+e.Text))
	}
	return nil
}

// headline says in one sentence when the trigger fires.
func headline(t map[string]any, now time.Time) string {
	id, state, next := cell(t["trigger_id"]), cell(t["state"]), cell(t["next_fire_at"])
	switch {
	case next != "" && state == "PAUSED":
		return fmt.Sprintf("%s is paused; only what ignores a pause fires, at %s", id, next)
	case state == "PAUSED":
		return fmt.Sprintf("%s is paused and does not fire until it is resumed", id)
	case next != "":
		return fmt.Sprintf("%s fires next at %s%s", id, next, distance(next, now))
	case state == "IN_FLIGHT":
		return fmt.Sprintf("%s went out at %s and waits for its receipt; without one it goes out again", id,
			or(cell(t["last_fired_at"]), cell(t["fire_at"])))
	case state == "FIRED" && cell(t["last_fired_at"]) == "":
		return id + " has ended, and nothing of it fired"
	case state == "FIRED":
		return fmt.Sprintf("%s has fired at %s, and will not again", id, cell(t["last_fired_at"]))
	}
	return fmt.Sprintf("%s is %s and will not fire", id, state)
}

func distance(at string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return ""
	}
	switch d := t.Sub(now); {
	case d < 0:
		return ", which is now"
	case d < time.Minute:
		return fmt.Sprintf(", in %s", d.Round(time.Second))
	case d < 48*time.Hour:
		return fmt.Sprintf(", in %s", strings.TrimSuffix(d.Round(time.Minute).String(), "0s"))
	default:
		return fmt.Sprintf(", in %d days", int(d.Hours()/24))
	}
}

// reasons lists the fields that decide when the trigger fires, in the order in which they apply.
func reasons(t map[string]any, events []topics.Event, now time.Time) (all []reason, err error) {
	add := func(about, format string, args ...any) {
		all = append(all, reason{about, fmt.Sprintf(format, args...)})
	}
	when, err := whenOf(t)
	if err != nil {
		return nil, err
	}
	explainWhen(t, when, events, now, add)
	explainPolicies(t, add)
	if words := explain.LastDelivery(events); words != "" && answersReceipts(t, events) {
		add("delivery", "%s", words)
	}
	if note := cell(t["note"]); note != "" {
		add("note", "%q, said who paused it", note)
	}
	return all, nil
}

// answersReceipts reports whether the engine waits for a receipt, or has received one. On
// channels without receipts, an occurrence is finished once it has fired.
func answersReceipts(t map[string]any, events []topics.Event) bool {
	if cell(t["state"]) == "IN_FLIGHT" {
		return true
	}
	return slices.ContainsFunc(events, func(e topics.Event) bool { return explain.Delivery(&e) != "" })
}

// whenOf reads the time fields from the API's JSON.
func whenOf(t map[string]any) (*trigger.When, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("read the trigger: %w", err)
	}
	var w struct {
		Timezone, Recurrence, Start, Until string
		Count                              int
		Include, Exclude                   []string
		DST                                topics.DSTJSON
		Calendars                          *topics.CalendarsJSON
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("read the trigger's time: %w", err)
	}
	out := &trigger.When{
		Zone: w.Timezone, Recurrence: w.Recurrence, Start: w.Start, Until: w.Until, Count: w.Count,
		Include: w.Include, Exclude: w.Exclude, DST: trigger.DST{Gap: w.DST.Gap, Overlap: w.DST.Overlap},
	}
	if w.Calendars != nil {
		out.Calendars = &trigger.Calendars{Names: w.Calendars.Names, On: w.Calendars.On}
	}
	if w.Recurrence != "" || len(w.Include) > 0 {
		out.Kind = trigger.WhenRecurrence
	}
	return out, nil
}

// compileWhen compiles a recurrence in order to check and describe it. It uses the embedded tz
// release and applies neither a tenant's limits nor calendars. It returns nil for a one-shot.
// start is the start that the engine chose, if there is one.
func compileWhen(w *trigger.When, start string, from int64) (*calendar.Rule, error) {
	if w.Kind != trigger.WhenRecurrence {
		return nil, nil
	}
	dst, err := calendar.ParseDST(w.DST.Gap, w.DST.Overlap)
	if err != nil {
		return nil, worded(err)
	}
	r, err := calendar.Compile(calendar.Embedded(), calendar.Spec{
		Recurrence: w.Recurrence, Start: or(start, w.Start), Zone: w.Zone,
		Include: w.Include, Exclude: w.Exclude, Until: w.Until, Count: w.Count, DST: dst, Append: from,
		Limits: calendar.Limits{}.Preview(),
	})
	if err != nil {
		return nil, worded(err)
	}
	return r, nil
}

func explainWhen(t map[string]any, w *trigger.When, events []topics.Event, now time.Time,
	add func(about, format string, args ...any),
) {
	rule, err := compileWhen(w, w.Start, now.UnixMilli())
	switch {
	case err != nil: // a newer engine may accept rules that this version does not know
		add("rule", "%s (%v)", w.Recurrence, err)
	case rule != nil:
		add("rule", "%s   (%s)", rule.Describe(), or(w.Recurrence, "the dates of include"))
		if w.Start != "" {
			add("start", "counts from %s", w.Start)
		}
	case snoozeOf(t, events) != nil:
		e := snoozeOf(t, events)
		add("snoozed", "at %s, until %s%s", e.OccurredAt, e.ScheduledAt, beforeSnooze(t, events))
	case cell(t["delay"]) != "":
		add("delay", delayWords, cell(t["delay"]))
	case cell(t["fire_at"]) != "":
		add("fire_at", "once, at %s", or(cell(t["local_time"]), cell(t["fire_at"])))
	}
	if len(w.Exclude) > 0 {
		add("exclude", "not on %s", strings.Join(w.Exclude, ", "))
	}
	if skipped := cell(t["skipped"]); skipped != "" {
		add("skipped", "left out by hand: %s", skipped)
	}
	if w.Calendars != nil {
		add("calendars", "on a day listed in %s: %s", strings.Join(w.Calendars.Names, ", "),
			holidayWords[or(w.Calendars.On, calendar.OnSkip)])
	}
	if w.Zone == "" || rule != nil && rule.ElapsedTime() {
		return
	}
	add("zone", "clocks in %s%s", w.Zone, releaseWords(cell(t["tzdata"])))
	add("dst", "a wall time that clocks skip %s; one that comes twice %s", gapWords[or(w.DST.Gap, "shift")],
		overlapWords[or(w.DST.Overlap, "first")])
}

var (
	holidayWords = map[string]string{
		calendar.OnSkip: "it does not fire", calendar.OnNext: "it moves to the next business day",
		calendar.OnPrevious: "it moves to the business day before",
	}
	gapWords     = map[string]string{"shift": "fires later by the gap", "skip": "does not fire"}
	overlapWords = map[string]string{
		"first": "fires at the first pass", "second": "fires at the second pass",
		"both": "fires at both passes",
	}
	misfireWords = map[string]string{
		"fire_all":  "all missed occurrences fire, in order",
		"fire_once": "the latest missed occurrence fires, once",
		"skip":      "no missed occurrence fires",
	}
)

func releaseWords(release string) string {
	switch own := calendar.Embedded().Release(); release {
	case "":
		return ""
	case own:
		return ", by tz release " + release
	default:
		return fmt.Sprintf(", by tz release %s (the words here are by %s, which this binary carries)", release, own)
	}
}
