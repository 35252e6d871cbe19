package explain

import (
	"encoding/json"
	"testing"

	"github.com/waterclock/waterclock/topics"
)

func TestEventsInWords(t *testing.T) {
	for _, row := range []struct{ event, want string }{
		{
			`{"type":"occurrence.fired","occurrence":"2026-11-20T09:00:00","lateness_ms":3}`,
			"fired 2026-11-20T09:00:00, 3 ms late",
		},
		{
			`{"type":"occurrence.fired","occurrence":"o","lateness_ms":90000,"reason":"misfire"}`,
			"fired o, 1 min 30 s late (misfire)",
		},
		{`{"type":"trigger.rescheduled","previous_scheduled_at":"a","scheduled_at":"b","previous_tzdata":"2025b","tzdata":"2025c"}`, "moved from a to b: tz release 2025b became 2025c"},
		{
			`{"type":"trigger.rescheduled","previous_scheduled_at":"a","scheduled_at":"b","reason":"user"}`,
			"moved from a to b (user)",
		},
		{
			`{"type":"occurrence.expired","occurrence":"o","reason":"expires_after","scheduled_at":"2026-11-20T09:00:00.000Z","occurred_at":"2026-11-20T09:00:01.500Z"}`,
			"did not fire o: it was 1.5 s late, and that is too late to be of use (expires_after)",
		},
		{
			`{"type":"occurrence.expired","occurrence":"o","reason":"misfire","scheduled_at":"2026-11-20T09:00:00.000Z","occurred_at":"2026-11-20T10:30:00.000Z"}`,
			"did not fire o: it was 1 h 30 min late, and the misfire policy skips what was missed (misfire)",
		},
		{
			`{"type":"occurrence.expired","occurrence":"o","reason":"misfire"}`,
			"did not fire o: the misfire policy skips what was missed (misfire)",
		},
		{`{"type":"occurrence.expired","occurrence":"o","reason":"moon"}`, "did not fire o: moon"},
		{`{"type":"trigger.registered","scheduled_at":"a","source":"c/0/1"}`, "registered for a by c/0/1"},
		{`{"type":"trigger.replaced","scheduled_at":"a","source":"c/0/1","actor":"eve"}`, "replaced for a by eve"},
		{`{"type":"trigger.registered","scheduled_at":"a"}`, "registered for a"},
		{`{"type":"trigger.paused","detail":"x"}`, "paused: x"},
		{`{"type":"trigger.resumed"}`, "resumed"},
		{`{"type":"trigger.cancelled","detail":"moved away"}`, "cancelled: moved away"},
		{`{"type":"trigger.completed"}`, "ended: nothing is left to fire"},
		{`{"type":"occurrence.skipped","occurrence":"o"}`, "skipped o"},
		{`{"type":"cancel.too_late","occurrence":"o","reason":"in_flight"}`, "a cancel came too late for o (in_flight)"},
		{`{"type":"cancel.too_late","reason":"unknown_id"}`, "a cancel came too late (unknown_id)"},
		{
			`{"type":"command.rejected","reason":"period_too_short","detail":"write every:1m","source":"commands/0/1"}`,
			"a command was refused (period_too_short): write every:1m",
		},
		{
			`{"type":"command.rejected","reason":"unknown_due_id","source":"receipts/0/1"}`,
			"a receipt was refused (unknown_due_id)",
		},
		{`{"type":"command.duplicate"}`, "a command came a second time, and changed nothing"},
		{`{"type":"moon.risen","detail":"x"}`, "moon.risen: x"},
		{
			`{"type":"delivery.dead_lettered","occurrence":"o","attempt":6,"reason":"http_410"}`,
			"o: given up after attempt 6, http_410; it is a dead letter, and a redrive tries it again",
		},
		{
			`{"type":"delivery.accepted","occurrence":"o","attempt":1,"step":0,"channel":"push","detail":"d"}`,
			"o: attempt 1 was accepted (d)",
		},
		{
			`{"type":"occurrence.fired","occurrence":"o","attempt":1,"step":1,"channel":"sms","lateness_ms":0}`,
			"fired o on sms, 0 ms late",
		},
		{
			`{"type":"delivery.accepted","occurrence":"o","attempt":1,"step":1,"channel":"sms","detail":"d"}`,
			"o: attempt 1 on sms was accepted (d)",
		},
		{
			`{"type":"delivery.postponed","occurrence":"o","attempt":1,"step":2,"channel":"email","reason":"quiet_hours",` +
				`"scheduled_at":"t"}`,
			"o: attempt 1 on email was postponed, quiet_hours; it goes out again at t",
		},
		{
			`{"type":"delivery.retried","occurrence":"o","attempt":2,"step":1,"channel":"sms","reason":"http_503",` +
				`"scheduled_at":"t"}`,
			"o: attempt 1 on sms was answered http_503; attempt 2 goes out at t",
		},
		{
			`{"type":"occurrence.fired","occurrence":"o","attempt":2,"step":0,"lateness_ms":1}`,
			"fired o, attempt 2, 1 ms after its retry was due",
		},
		// nothing goes out after a receipt that was ignored
		{
			`{"type":"delivery.retried","occurrence":"o","attempt":1,"step":0,"channel":"orders","reason":"no_receipts"}`,
			"o: a receipt (retried) of attempt 1 was ignored, since its channel has no receipts (no_receipts)",
		},
		{
			`{"type":"delivery.postponed","occurrence":"o","attempt":2,"step":1,"channel":"sms","reason":"late"}`,
			"o: a receipt (postponed) of attempt 2 on sms was ignored, since it came too late (late)",
		},
		{
			`{"type":"delivery.failed","occurrence":"o","attempt":1,"step":0,"channel":"push","reason":"late"}`,
			"o: attempt 1 failed, late; that was too late to count",
		},
		{`{"type":"trigger.failed"}`, "failed: its only occurrence could not be delivered"},
	} {
		var e topics.Event
		if err := json.Unmarshal([]byte(row.event), &e); err != nil {
			t.Fatal(err)
		}
		if got := Words(&e); got != row.want {
			t.Errorf("%s\n got %q\nwant %q", row.event, got, row.want)
		}
	}
}
