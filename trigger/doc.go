// Package trigger is what a trigger is and how it changes: a pure state machine. A Machine
// takes a State, one input (a command, a receipt, a timer that went off) and the time. It
// returns the next State, the facts (events), the due events and the dead letters. It does no
// I/O, reads no clock and uses no random numbers. Package pipeline writes the result in one
// transaction, or none of it.
//
// # States
//
// A trigger's status is that of its series. A recurring trigger stays PENDING
// while its occurrences are in flight; IN_FLIGHT is for one-shots.
//
//	           register            pause
//	(unknown) ──────────▶ PENDING ─────────▶ PAUSED      back: resume, or a replacement
//	                         │
//	          due, receipts  │  due, no receipts
//	       ┌─────────────────┴──────────┐
//	       ▼     accepted, delivered,   ▼
//	   IN_FLIGHT ───────────────────▶ FIRED              suppressed, ack: the same
//	       │
//	       └── failed, no attempt left ──▶ FAILED
//
//	PENDING, IN_FLIGHT ── too late by misfire or expires_after ──▶ EXPIRED
//	PENDING, PAUSED, IN_FLIGHT ── cancel ──▶ CANCELLED
//	(unknown) ── cancel ──▶ UNKNOWN          any ── erase ──▶ ERASED
//
//	IN_FLIGHT, FIRED, EXPIRED ── replacement, or a snooze after the fact ──▶ PENDING, in the same life
//	FAILED, CANCELLED, UNKNOWN, ERASED ── register ──▶ PENDING, in a new life
//
// A series ends FIRED, with trigger.completed, when its rule has ended and
// nothing is in flight or snoozed; a failed occurrence never fails a series. An
// occurrence whose due topic refuses it for 20 minutes fails its one-shot from
// PENDING. UNKNOWN remembers a cancel of a key nobody knew; ERASED that there
// was content. The finished statuses are kept for the horizon (ForgetAt) and
// then forgotten: the key is unknown again.
//
// # Fields
//
//	                   PENDING  PAUSED  IN_FLIGHT  FIRED  FAILED  EXPIRED  CANCELLED  UNKNOWN  ERASED
//	Revision           ≥1       ≥1      ≥1         ≥1     ≥1      ≥1       ≥1         0        ≥1
//	Spec, Hash, Life   yes      yes     yes        yes    trimmed yes      trimmed    no       no (Life: yes)
//	Spec.Payload       yes      yes     yes        user   no      user     no         no       no
//	Series.At          or Live  or Live no         no     no      no       no         no       no
//	Series.After       rule     rule    rule       rule   rule    rule     rule       no       no
//	Live               any      any     some       no     no      no       no         no       no
//	Keys, Done         yes      yes     yes        yes    yes     yes      yes        no       no
//	Note               no       yes     no         no     no      no       no         no       no
//	ForgetAt           no       no      no         yes    yes     yes      yes        yes      yes
//	Timers             ≥1       any     ≥1         none   none    none     none       none     none
//
// "user": kept, with headers and callback, if the trigger has a user_id, for a
// snooze after the fact; else dropped, and Trimmed says so. "or Live": a series
// that has ended stays PENDING for what is in flight or snoozed, and one whose
// zone the tz release in force lacks is PAUSED with neither (Series.Retry is 1,
// or 2 if a user has paused it, too). "rule": set once a recurrence has decided
// anything in this life. A paused trigger has timers only for what is in flight
// and for a run_now.
//
// # Source of truth
//
// The State alone is. It is the value on topic state and in the store. Timers are a function
// of it (Timers). Other entries in the due index or the wheel are stale, and Due ignores
// them. The State has the ids of the last 16 firings and the last 16 idempotency keys. What
// may have fired before those counts as fired.
//
// # Promises
//
//   - The same State, input and now give the same Outcome, on every node. The
//     State handed in is not modified, and shares no memory that is written to
//     later with the one handed out.
//   - Seq counts facts by one, over all lives within the horizon. Revision
//     counts accepted changes: one a step at most, never backwards. A refused
//     command leaves the State as it was, but for Seq.
//   - Never early: nothing fires before its nominal instant plus jitter.
//   - A ce_id and attempt goes out once. Only a postponed receipt asks for the
//     same attempt again. An occurrence that fired in this life never fires
//     again, whatever is edited, rezoned or moved.
//   - A recurrence neither skips nor repeats an occurrence, but as its misfire
//     policy, a skip or expires_after say; each run of missed occurrences is
//     told once, after an outage and a pause alike.
//   - At most 128 live occurrences; one more fails the oldest.
//   - The work of a step is bounded: a run of missed occurrences is counted to
//     a million, and a fire_all goes on with the latest 1,000 of it.
//
// testdata/life tells all of it as stories.
package trigger
