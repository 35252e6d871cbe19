package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

var noon = trigger.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))

// events reads events, one JSON object each.
func events(t *testing.T, texts ...string) (list []topics.Event) {
	t.Helper()
	for i, text := range texts {
		var e topics.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		e.EventID = "0-" + string(rune('1'+i))
		if e.OccurredAt == "" {
			e.OccurredAt = "2026-11-20T11:00:00.000Z"
		}
		list = append(list, e)
	}
	return list
}

// state is a trigger on channel push whose content has a zone.
func state(status trigger.Status, change func(*trigger.State)) *trigger.State {
	s := &trigger.State{Key: "k", Status: status, Revision: 2, CreatedAt: noon - 7_200_000, UpdatedAt: noon - 60_000}
	s.Spec.Channel, s.Spec.When.Zone = "push", "America/New_York"
	if change != nil {
		change(s)
	}
	return s
}

func due(in time.Duration) func(*trigger.State) {
	return func(s *trigger.State) { s.Series.At, s.Series.Occurrence = noon.Add(in), "o" }
}

func live(l trigger.Live) func(*trigger.State) {
	return func(s *trigger.State) {
		l.Occurrence, l.Nominal = "o", noon-3_600_000
		s.Live = []trigger.Live{l}
	}
}

func fired(s *trigger.State) {
	s.Done = []trigger.Firing{{Occurrence: "o", At: noon - 1000, Nominal: noon - 1000, Topic: "due.push", Partition: 4}}
}

// monthly fires on the 20th at 06:00, but for a calendar.
func monthly(on string) func(*trigger.State) {
	return func(s *trigger.State) {
		s.Spec.When = trigger.When{
			Kind: trigger.WhenRecurrence, Zone: "America/New_York", Recurrence: "FREQ=MONTHLY;BYMONTHDAY=20",
			Start: "2026-01-20T06:00", Calendars: &trigger.Calendars{Names: []string{"us"}, On: on},
		}
		s.CreatedAt = noon.Add(-10 * 24 * time.Hour)
		due(72 * time.Hour)(s)
	}
}

// Each code, from events and from the state alone, and what the newest of several events means.
func TestExplain(t *testing.T) {
	soon := noon + 1000
	const registered = `{"type":"trigger.registered","scheduled_at":"2026-11-20T15:00:00.000Z"}`
	const sent = `{"type":"occurrence.fired","occurrence":"o","attempt":1,"channel":"push","due_topic":"due.push"}`
	for _, row := range []struct {
		name   string
		state  *trigger.State
		events []string
		code   Code
		cites  string // event_id, or a source
		says   string
	}{
		{"nothing", nil, nil, Unknown, "", "There is no trigger k, and the history has no event of it."},
		{"a cancel of nothing", state(trigger.Unknown, nil), nil, Unknown, "state", "found nothing to cancel"},
		{
			"a cancel of nothing, cited", state(trigger.Unknown, nil),
			[]string{`{"type":"cancel.too_late","reason":"unknown"}`},
			Unknown, "0-1", "found nothing to cancel",
		},
		{
			"a repeat after a firing", state(trigger.Pending, func(s *trigger.State) {
				fired(s)
				due(24 * time.Hour)(s)
				s.Spec.When.Kind, s.Series.After, s.LastAppend = trigger.WhenRecurrence, noon-1000, noon-500
			}), nil, Fired, "state", "knows what became of it. Next: Sat 2026-11-21 07:00 America/New_York.",
		},
		{
			"a register after a firing", state(trigger.Pending, func(s *trigger.State) {
				fired(s)
				due(24 * time.Hour)(s)
				s.Spec.When.Kind, s.Series.After, s.LastAppend = trigger.WhenRecurrence, noon-500, noon-500
			}), nil, Scheduled, "state", "Scheduled: it fires Sat 2026-11-21 07:00 America/New_York.",
		},
		{
			"a due topic that refuses a retry", state(trigger.InFlight, live(trigger.Live{
				Kind: trigger.LiveRetry, Attempt: 7, Due: noon + 60_000, EmitRetry: 3,
			})),
			[]string{registered, `{"type":"delivery.redriven","occurrence":"o","attempt":7}`},
			Overdue, "0-2", "its due topic did not take attempt 7, 3 times so far; the next try is Fri 2026-11-20",
		},
		{"erased", state(trigger.Erased, nil), []string{registered}, Erased, "state", "its content is gone"},
		{
			"refused", nil,
			[]string{`{"type":"command.rejected","reason":"quota_exceeded","detail":"limit pending"}`},
			Rejected, "0-1", "refused Fri 2026-11-20 11:00 UTC, quota_exceeded: limit pending",
		},
		{
			"refused once, registered later", state(trigger.Pending, due(time.Hour)),
			[]string{`{"type":"command.rejected","reason":"invalid"}`, registered},
			Scheduled, "0-2",
			"Scheduled: it fires Fri 2026-11-20 08:00 America/New_York.",
		},
		{
			"a refused receipt", state(trigger.Pending, due(time.Hour)), []string{
				registered,
				`{"type":"command.rejected","reason":"invalid","detail":"no attempt","source":"wc.receipts/0/4"}`,
			}, Scheduled, "0-1", "A later receipt was refused Fri 2026-11-20 06:00 America/New_York, invalid: no att",
		},
		{
			"a refused command", state(trigger.Pending, due(time.Hour)), []string{
				registered, `{"type":"command.rejected","reason":"invalid","source":"wc.commands/0/4"}`,
			}, Scheduled, "0-1", "A later command was refused Fri",
		},
		{
			"a receipt on a channel without", state(trigger.Fired, fired),
			[]string{
				registered, sent,
				`{"type":"delivery.retried","occurrence":"o","channel":"push","reason":"no_receipts"}`,
			},
			Fired, "0-2",
			"A later receipt was ignored Fri 2026-11-20 06:00 America/New_York, since its channel has no receipts",
		},
		{
			"a receipt of nothing", nil,
			[]string{`{"type":"delivery.delivered","occurrence":"o","reason":"unknown"}`},
			Unknown, "0-1", "There is no trigger k. A receipt came for it, and fits nothing.",
		},
		{
			"a refused receipt of nothing", nil,
			[]string{`{"type":"command.rejected","reason":"invalid","source":"waterclock.receipts/0/4"}`},
			Unknown, "0-1", "There is no trigger k. A receipt came for it, and fits nothing.",
		},
		{
			"forgotten", nil, []string{registered, sent}, Fired, "0-2", "Its record is gone since",
		},
		{
			"a command after it was forgotten", nil,
			[]string{registered, sent, `{"type":"command.rejected","reason":"not_found"}`},
			Fired, "0-2", "for the horizon. A later command was refused Fri 2026-11-20 11:00 UTC, not_found",
		},
		{
			"forgotten before it fired", nil, []string{registered}, Scheduled, "0-1", "It was scheduled for ",
		},
		{
			"pending", state(trigger.Pending, due(time.Hour)), nil, Scheduled, "state",
			"it fires Fri 2026-11-20 08:00 Am",
		},
		{
			"tz release", state(trigger.Pending, due(time.Hour)), []string{
				registered, sent,
				`{"type":"delivery.suppressed","occurrence":"o","channel":"push","reason":"capped"}`,
				`{"type":"trigger.rescheduled","previous_tzdata":"2025b","tzdata":"2025c"}`,
			}, Suppressed, "0-3", "as many on this channel as max_per_user allows (capped), Fri 2026-11-20 06:00 " +
				"America/New_York. Next: Fri ",
		},
		{
			"paused by the engine", state(trigger.Paused, nil),
			[]string{`{"type":"trigger.paused","reason":"unknown_zone"}`},
			Paused, "0-1", "(unknown_zone)",
		},
		{
			"paused", state(trigger.Paused, func(s *trigger.State) { s.Note = "a\nb" }), nil, Paused, "state",
			`Paused (a\nb): it`,
		},
		{"overdue", state(trigger.Pending, due(-time.Minute)), []string{registered}, Overdue, "state", "1 min ago"},
		{"just due", state(trigger.Pending, due(-time.Second)), []string{registered}, Scheduled, "0-1", "it fires"},
		{
			"jitter is not late", state(trigger.Pending, func(s *trigger.State) {
				due(-time.Minute)(s)
				s.Series.Jitter = 120_000
			}), []string{registered}, Scheduled, "0-1", "07:01 America/New_York",
		},
		{
			"its topic refuses", state(trigger.Pending, func(s *trigger.State) {
				due(-time.Minute)(s)
				s.Series.Retry, s.Series.RetryAt = 3, noon+60_000
			}), nil, Overdue, "state", "did not take it, 3 times so far; the next try is Fri 2026-11-20 07:01",
		},
		{
			"the topic of a snooze refuses", state(trigger.Pending, func(s *trigger.State) {
				live(trigger.Live{Kind: trigger.LiveSnoozed, Due: noon + 60_000, Attempt: 1, EmitRetry: 7})(s)
				s.Live[0].Nominal = noon - 300_000
			}), []string{`{"type":"trigger.snoozed"}`}, Overdue, "state", "it was due Fri 2026-11-20 06:55 " +
				"America/New_York" +
				", 5 min ago; its due topic did not take it, 7 times so far; the next try is Fri 2026-11-20 07:01",
		},
		{
			"in flight", state(trigger.InFlight, live(trigger.Live{Kind: trigger.LiveInFlight, Due: soon, Attempt: 1})),
			[]string{registered, sent},
			InFlight, "0-2", "to push, attempt 1: no receipt yet",
		},
		{
			"in flight, alone",
			state(trigger.InFlight, live(trigger.Live{Kind: trigger.LiveInFlight, Due: soon, Attempt: 2})),
			nil, InFlight, "state", "attempt 2: no receipt yet",
		},
		{
			"retrying", state(trigger.InFlight, live(trigger.Live{Kind: trigger.LiveRetry, Due: soon, Attempt: 3})),
			nil, Retrying, "state", "attempt 2 failed at the push worker. Attempt 3",
		},
		{
			"postponed", state(trigger.InFlight, live(trigger.Live{
				Kind: trigger.LiveRetry, Due: noon + 1000, Attempt: 1, Postponed: 2,
			})), nil, Postponed, "state", "has put it off. It is tried again Fri 2026-11-20 07:00:01 Am",
		},
		{
			"escalating", state(trigger.InFlight, live(trigger.Live{Kind: trigger.LiveEscalating, Due: noon + 1000})),
			nil, InFlight, "state", "the next step goes out",
		},
		{
			"moved to the day before, and delivered", state(trigger.Pending, monthly(calendar.OnPrevious)), []string{
				registered, `{"type":"delivery.delivered","channel":"push","occurred_at":"2026-11-19T11:00:01Z"}`,
			}, Delivered, "0-2", "Delivered: the push worker",
		},
		{
			"moves to the day after", state(trigger.Pending, monthly(calendar.OnNext)),
			[]string{`{"type":"trigger.registered","occurred_at":"2026-11-11T12:00:00Z"}`},
			Skipped, "state",
			"Fri 2026-11-20 06:00 America/New_York is no business day of calendar us, so it moves to the next",
		},
		{
			"sent without receipts, of a series", state(trigger.Pending, due(time.Hour)), []string{
				registered, `{"type":"occurrence.fired","occurrence":"o","state":"PENDING","channel":"push"}`,
			}, Fired, "0-2", "This channel has no receipts, so nothing says what became of it. Next: Fri ",
		},
		{"fired, alone", state(trigger.Fired, fired), nil, Fired, "state", "Only a history knows"},
		{
			"a history that is behind", state(trigger.Fired, fired),
			[]string{registered},
			Fired, "state",
			"Only a history knows",
		},
		{
			"a skip of all there was", state(trigger.Fired, nil), []string{
				registered, `{"type":"occurrence.skipped","scheduled_at":"2026-11-21T15:00:00.000Z"}`,
				`{"type":"trigger.completed"}`,
			}, Skipped, "0-2", "the occurrence of Sat 2026-11-21 10:00 America/New_York was left out by a skip",
		},
		{
			"ended without firing, alone", state(trigger.Fired, nil), nil, Skipped, "state",
			"Never sent: it ended Fri 2026-11-20 06:59 America/New_York, and nothing of it went out.",
		},
		{"expired, alone", state(trigger.Expired, nil), nil, Expired, "state", "too late to be of use"},
		{"failed, alone", state(trigger.Failed, fired), nil, Failed, "state", "given up"},
		{"cancelled, alone", state(trigger.Cancelled, nil), nil, Cancelled, "state", "Cancelled Fri"},
		{
			"delivered late", state(trigger.Fired, fired), []string{
				sent,
				`{"type":"delivery.dead_lettered","occurrence":"o","reason":"http_410"}`,
				`{"type":"delivery.delivered","occurrence":"o","channel":"push","reason":"late"}`,
			}, Delivered, "0-3", "Delivered: the push worker",
		},
		{
			"a late failure", state(trigger.Fired, fired), []string{
				sent, `{"type":"delivery.delivered","occurrence":"o","channel":"push"}`,
				`{"type":"delivery.failed","occurrence":"o","channel":"push","reason":"late"}`,
			}, Delivered, "0-2", "Delivered: the push worker",
		},
		{
			"a code that nobody knows", state(trigger.Fired, fired), []string{
				sent, `{"type":"delivery.suppressed","occurrence":"o","channel":"fax","reason":"moon","detail":"full"}`,
			}, Suppressed, "0-2", "the fax worker decided against it: moon (full), Fri",
		},
		{
			"an event that nobody knows", state(trigger.Pending, due(time.Hour)),
			[]string{registered, `{"type":"trigger.teleported"}`},
			Scheduled, "0-1", "Scheduled: it fires",
		},
		{
			"a skip of a day to come", state(trigger.Pending, due(time.Hour)),
			[]string{registered, `{"type":"occurrence.skipped","scheduled_at":"2026-12-25T14:00:00.000Z"}`},
			Scheduled,
			"0-1", "Scheduled: it fires",
		},
		{
			"fired late", state(trigger.Fired, fired),
			[]string{`{"type":"occurrence.fired","occurrence":"o","lateness_ms":7200000,"channel":"push"}`},
			Fired,
			"0-1", ", 2 h late to push",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := &Input{
				ID: "k", State: row.state, Events: events(t, row.events...), History: true, Now: noon,
				Zones: calendar.Embedded(),
			}
			a := Explain(in)
			cites := ""
			if len(a.Evidence) > 0 {
				if cites = a.Evidence[0].EventID; cites == "" {
					cites = a.Evidence[0].Source
				}
			}
			if a.Code != row.code || cites != row.cites || !strings.Contains(a.Sentence, row.says) {
				t.Errorf("cites %q, want %s %q %q:\n%+v", cites, row.code, row.cites, row.says, a)
			}
		})
	}
	in := Input{ID: "k", Restoring: "its partition moves", Events: events(t, registered)}
	if a := Explain(&in); a.Code != Restoring ||
		!strings.Contains(a.Sentence, "its partition moves") ||
		len(a.Evidence) != 1 {
		t.Errorf("%+v", a)
	}
	if a := Explain(&Input{ID: "k"}); a.Code != Unknown || !strings.Contains(a.Sentence, "no history is available") {
		t.Errorf("%+v", a)
	}
}

// The first and the last year that a trigger may have are instants like any other.
func TestYearsAtTheEnds(t *testing.T) {
	for text, want := range map[string]string{
		"0001-01-01T00:00:00.000Z": "Mon 0001-01-01 00:00 UTC",
		"9999-12-31T23:59:59.999Z": "Fri 9999-12-31 23:59:59 UTC",
		"soon":                     "soon", "": "",
	} {
		x := &explanation{in: &Input{}}
		if got := x.when(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A time that clocks show twice has its offset, as on the console's pages. Those around it need none.
func TestTimesThatComeTwice(t *testing.T) {
	zone, err := calendar.Embedded().Lookup("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	x := &explanation{in: &Input{}, zone: zone}
	for text, want := range map[string]string{
		"2026-11-01T04:59:00Z": "Sun 2026-11-01 00:59 America/New_York",
		"2026-11-01T05:30:00Z": "Sun 2026-11-01 01:30 America/New_York (UTC-04:00)",
		"2026-11-01T06:30:00Z": "Sun 2026-11-01 01:30 America/New_York (UTC-05:00)",
		"2026-11-01T07:00:00Z": "Sun 2026-11-01 02:00 America/New_York",
		"2026-03-08T07:30:00Z": "Sun 2026-03-08 03:30 America/New_York",
	} {
		if got := x.when(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Times of evidence have their zone, as those of sentences do, and a long lateness is no number of milliseconds.
func TestEvidenceDrawsTimes(t *testing.T) {
	for _, c := range []struct {
		zone, event, want string
	}{
		{
			"America/New_York", `{"type":"occurrence.fired","occurred_at":"2026-11-20T12:05:01.052Z","channel":"push",` +
				`"occurrence":"2026-11-20T07:00:00","scheduled_at":"2026-11-20T12:00:00.000Z","lateness_ms":301052}`,
			"Fri 2026-11-20 07:05:01 America/New_York: fired Fri 2026-11-20 07:00 America/New_York, 5 min 1 s late",
		},
		{
			"", `{"type":"occurrence.fired","occurred_at":"2026-11-20T12:05:01.052Z","channel":"push",` +
				`"occurrence":"2026-11-20T12:05:00.000Z","scheduled_at":"2026-11-20T12:05:00.000Z","lateness_ms":1052}`,
			"Fri 2026-11-20 12:05:01 UTC: fired Fri 2026-11-20 12:05 UTC, 1 s late",
		},
		{
			"", `{"type":"occurrence.fired","occurred_at":"2026-11-20T12:05:00Z","occurrence":"run-1-77",` +
				`"lateness_ms":7}`,
			"Fri 2026-11-20 12:05 UTC: fired run-1-77, 7 ms late",
		},
		{
			"", `{"type":"delivery.suppressed","occurred_at":"2026-11-20T12:05:01Z","reason":"opted_out","attempt":1,` +
				`"occurrence":"2026-11-20T12:05:00.000Z"}`,
			"Fri 2026-11-20 12:05:01 UTC: occurrence Fri 2026-11-20 12:05 UTC: attempt 1 was suppressed, opted_out",
		},
		{
			"Asia/Tokyo", `{"type":"occurrence.expired","occurred_at":"2026-11-20T12:05:00Z","reason":"misfire",` +
				`"occurrence":"2026-11-20T21:00:00","scheduled_at":"2026-11-20T12:00:00Z"}`,
			"Fri 2026-11-20 21:05 Asia/Tokyo: did not fire Fri 2026-11-20 21:00 Asia/Tokyo: it was 5 min late, and " +
				"the misfire policy skips what was missed (misfire)",
		},
		{
			"Asia/Tokyo", `{"type":"trigger.registered","occurred_at":"2026-11-20T12:05:00Z","source":"c/0/1",` +
				`"local_time":"2026-11-21T09:00:00[Asia/Tokyo]","scheduled_at":"2026-11-21T00:00:00Z"}`,
			"Fri 2026-11-20 21:05 Asia/Tokyo: registered for Sat 2026-11-21 09:00 Asia/Tokyo",
		},
	} {
		list := events(t, c.event)
		list[0].Timezone = c.zone
		a := Explain(&Input{ID: "k", Events: list, History: true, Now: noon, Zones: calendar.Embedded()})
		if len(a.Evidence) != 1 || a.Evidence[0].Text != c.want {
			t.Errorf("%s\n got %+v\nwant %q", c.event, a.Evidence, c.want)
		}
	}
	a := Explain(&Input{State: &trigger.State{Status: trigger.Cancelled, UpdatedAt: noon}})
	if a.Evidence[0].Text != "CANCELLED since Fri 2026-11-20 12:00 UTC" {
		t.Errorf("of the state: %+v", a.Evidence)
	}
}

func TestTook(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 ms", 999 * time.Millisecond: "999 ms", time.Second: "1 s", 1990 * time.Millisecond: "1.9 s",
		59999 * time.Millisecond: "59.9 s", 301052 * time.Millisecond: "5 min 1 s", time.Hour: "1 h",
		24*time.Hour - time.Second: "23 h 59 min", 76*time.Hour + time.Minute: "3 d 4 h",
	} {
		if got := Took(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a\u202eb": `a\u202eb`, "a\u200b\x1b": `a\u200b\x1b`, "\xff": "\uFFFD", "für 😀": "für 😀",
		strings.Repeat("ä", 30): strings.Repeat("ä", 8) + "…",
	} {
		if got := plain(text, 20); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever a history and an owner say, there is an answer: with a known code, bounded, and with
// nothing in it that does not print.
func FuzzExplain(f *testing.F) {
	f.Add(
		uint8(1),
		uint8(0),
		int64(0),
		int64(0),
		"occurrence.fired",
		"o",
		"opted_out",
		"\u202e",
		"2026-11-20T12:00:00Z",
		"UTC",
	)
	f.Add(uint8(3), uint8(2), int64(-62135596800000), int64(253402300799999), "delivery.retried", "", "", "x",
		"9999-12-31T23:59:59.999Z", "America/New_York")
	f.Add(
		uint8(9),
		uint8(5),
		int64(1<<62),
		int64(-1<<62),
		"command.rejected",
		"\x00",
		"\xff",
		strings.Repeat("😀", 3000),
		"0001-01-01T00:00:00Z",
		"Nowhere/At_All",
	)
	types := []string{
		"trigger.registered", "trigger.rescheduled", "occurrence.skipped", "occurrence.expired", "occurrence.misfired",
		"delivery.suppressed", "delivery.dead_lettered", "cancel.too_late", "escalation.stopped", "trigger.erased",
	}
	f.Fuzz(func(t *testing.T, status, kind uint8, now, at int64, what, occurrence, reason, detail, when, zone string) {
		late := at
		list := []topics.Event{
			{
				EventID: detail, Type: types[int(kind)%len(types)], OccurredAt: when, Occurrence: occurrence,
				Reason: reason, Detail: detail, ScheduledAt: when, Attempt: int(at), Count: int(now), Source: reason,
				Channel: occurrence,
			},
			{
				EventID: "1", Type: what, OccurredAt: when, Occurrence: occurrence, Reason: reason, Detail: detail,
				ScheduledAt: detail, Timezone: zone, LatenessMS: &late, Attempt: int(now), Count: int(at), First: when,
				PreviousTZData: zone, TZData: reason, Channel: detail, DueTopic: zone, LocalTime: detail,
			},
		}
		s := &trigger.State{
			Key: trigger.Key(
				occurrence,
			), Status: trigger.Status(status % 10), Note: detail, CreatedAt: trigger.Instant(now),
			UpdatedAt: trigger.Instant(at), ForgetAt: trigger.Instant(at),
		}
		s.Series = trigger.Series{
			At:         trigger.Instant(at),
			Occurrence: occurrence,
			Jitter:     now,
			Retry:      int(kind),
			After:      trigger.Instant(now),
		}
		s.Spec.Channel, s.Spec.When = detail, trigger.When{
			Kind: trigger.WhenRecurrence, Zone: zone, Recurrence: "FREQ=DAILY", Start: "2026-01-01T09:00",
			Calendars: &trigger.Calendars{Names: []string{detail, reason}, On: calendar.OnNext},
		}
		if kind%6 != 0 {
			s.Live = []trigger.Live{{
				Kind: trigger.LiveKind(kind % 6), Occurrence: occurrence, Nominal: trigger.Instant(at),
				Due: trigger.Instant(now), Attempt: int(at), Postponed: int(now), Step: int(kind),
			}}
		}
		if kind%2 == 0 {
			s.Done = []trigger.Firing{{Occurrence: occurrence, At: trigger.Instant(at), Topic: detail}}
		}
		for _, in := range []Input{
			{State: s, Events: list, History: true, Zones: calendar.Embedded()},
			{State: s},
			{Events: list},
			{State: s, Events: list, Restoring: detail},
		} {
			in.ID, in.Now = detail, trigger.Instant(now)
			a := Explain(&in)
			if !slices.Contains(Codes, a.Code) || a.Sentence == "" || len(a.Sentence) > maxSentence ||
				len(a.Evidence) > maxEvidence || a.Evidence == nil {
				t.Fatalf("%+v", a)
			}
			for _, text := range append([]string{a.Sentence}, textsOf(&a)...) {
				if strings.IndexFunc(text, hidden) >= 0 || !utf8.ValidString(text) || len(text) > maxSentence {
					t.Fatalf("%q", text)
				}
			}
		}
	})
}

func textsOf(a *Answer) (all []string) {
	for _, e := range a.Evidence {
		all = append(all, e.EventID, e.Source, e.Text)
	}
	return all
}

func hidden(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// An occurrence of a key that was registered anew is drawn as a time, without the place of its register.
func TestOccurrenceOfALaterLife(t *testing.T) {
	x := &explanation{in: &Input{State: state(trigger.Fired, fired), Zones: calendar.Embedded()}}
	x.zone = zoneOf(x.in)
	for id, want := range map[string]string{
		"2026-11-20T06:00:00":           "Fri 2026-11-20 06:00 America/New_York",
		"2026-11-20T06:00:00~1-77":      "Fri 2026-11-20 06:00 America/New_York",
		"2026-11-20T12:00:00.000Z~1-77": "Fri 2026-11-20 07:00 America/New_York",
		"run-1~77":                      "run-1~77",
	} {
		if got := x.occurrence(id); got != want {
			t.Errorf("%s is drawn %q, want %q", id, got, want)
		}
	}
}

// Where topic events was read in place of a history, and says nothing, nobody knows what became of it: not that it was
// sent.
func TestExplainScanned(t *testing.T) {
	s := &trigger.State{Key: "k", Status: trigger.Fired, Done: []trigger.Firing{{Occurrence: "o", At: noon}}}
	for operator, none := range map[bool]string{true: "of the newest 20000 records", false: "of the newest records"} {
		a := Explain(&Input{ID: "k", State: s, Scanned: 20_000, Operator: operator, Now: noon})
		want := "It went out Fri 2026-11-20 12:00 UTC. What became of it is not known: there is no history, and " +
			none + " of its partition of topic events none says it."
		if a.Code != Fired || a.Sentence != want {
			t.Errorf("%s, %q", a.Code, a.Sentence)
		}
	}
	e := topics.Event{Type: "delivery.suppressed", Channel: "push", Reason: "opted_out"}
	a := Explain(&Input{ID: "k", State: s, Events: []topics.Event{e}, Scanned: 10, Missing: 1, Now: noon})
	if a.Code != Suppressed || !strings.HasSuffix(a.Sentence, "Topic events is behind: it lacks the newest 1 of its "+
		"events.") {
		t.Errorf("%s, %q", a.Code, a.Sentence)
	}
}
