package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Deleting a calendar must not change when a trigger fires. So it is refused while an
// unfinished trigger names the calendar. A register may come between this check and the
// moment at which a partition applies the deletion. So the calendar is deleted, every
// partition applies that, and all partitions are checked once more. By then each of them
// refuses a register that names it. If a register came in between, the calendar is
// restored, which plans that trigger anew, and the delete is refused.

// deleteWithin bounds a delete: two scans of all triggers and the wait between them. It is
// within the bound of the answer, so that the caller gets one.
const deleteWithin = responseWithin - 15*time.Second

// usersWithin bounds each of the two scans, so that one that is done in time leaves enough for the other. Nothing makes
// the question smaller, so limits.read_budget and limits.read_time do not bound it: the tenant pays for all that is
// visited, and is refused its next reads, and deletes, until that is paid off. It is a variable for tests.
var usersWithin = 20 * time.Second

// appliedWithin bounds how long partitions may take to apply a deletion. They are asked
// every appliedEvery. It is a variable for tests.
var appliedWithin = 10 * time.Second

const appliedEvery = 20 * time.Millisecond

// deleteCalendar deletes a calendar that no trigger names, and answers the deleted
// calendar.
func (s *calendars) deleteCalendar(w http.ResponseWriter, r *request) error {
	// A caller that hangs up must not leave a calendar half deleted.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), deleteWithin)
	defer cancel()
	full, err := s.calendarToChange(r)
	if err != nil {
		return err
	}
	until, release := s.commands.untilFull(ctx)
	defer release()
	c, err := existing(s.calendar(until, full))
	if err != nil {
		return err
	}
	if full != r.names["name"] {
		if err := s.changes.take(r.who.Tenant); err != nil {
			return err
		}
	}
	if err := s.refuseUsed(ctx, r, c.Name); err != nil {
		return err
	}
	// That may have taken long, and what is put back must be what was there last.
	if c, err = existing(s.calendar(until, full)); err != nil {
		return err
	}
	at := s.putSetting(ctx, []byte(topics.ControlCalendars+c.Name), nil)
	if at.err != nil {
		return unacknowledged(at.err, "that the calendar is deleted", "repeat the request to find out")
	}
	if err := s.confirmDeleted(ctx, r, c.Name, at.offset); err != nil {
		if failed := s.putBack(c); failed != nil {
			return failed
		}
		return err
	}
	return sendJSON(w, http.StatusOK, calendarJSON(c.Name, c.Dates))
}

// putSetting appends to topic control and waits until that is durable. A nil
// value deletes the setting.
func (s *calendars) putSetting(ctx context.Context, key, value []byte) location {
	done := make(chan location, 1)
	s.kafka.TryProduce(context.WithoutCancel(ctx), &kgo.Record{Topic: s.names.Control(), Key: key, Value: value},
		func(r *kgo.Record, err error) { done <- location{r.Partition, r.Offset, s.commands.late(err)} })
	return s.commands.durable(done)
}

// confirmDeleted waits until every partition has applied the record at an offset of topic
// control, and checks once more.
func (s *calendars) confirmDeleted(ctx context.Context, r *request, name string, offset int64) error {
	if err := s.awaitApplied(ctx, offset); err != nil {
		return problem.Unavailable(err, "not every partition has confirmed in time, so the calendar stays; try again")
	}
	return s.refuseUsed(ctx, r, name)
}

func (s *calendars) awaitApplied(ctx context.Context, offset int64) error {
	ctx, cancel := context.WithTimeout(ctx, appliedWithin)
	defer cancel()
	for {
		behind := slices.ContainsFunc(s.router.Partitions(ctx), func(p peer.PartitionStatus) bool {
			return !p.Ready || p.ControlOffset <= offset
		})
		if !behind {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(appliedEvery):
		}
	}
}

// putBack restores a calendar, unless another one has replaced it meanwhile.
func (s *calendars) putBack(c *topics.Calendar) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.readWithin)
	defer cancel()
	if now, err := s.calendar(ctx, c.Name); err == nil && now != nil {
		return nil
	}
	key, value, err := topics.EncodeCalendar(*c)
	if err == nil {
		err = s.putSetting(ctx, key, value).err
	}
	if err != nil {
		s.log.Error("a calendar that triggers name is deleted and could not be restored: put it again",
			"calendar", c.Name, "dates", c.Dates, "error", err)
		return problem.Unavailable(err, "triggers name the calendar, and it could not be restored: put it again")
	}
	return nil
}

// refuseUsed returns a problem while unfinished triggers name a calendar, or while nobody can say whether they do.
func (s *calendars) refuseUsed(ctx context.Context, r *request, name string) error {
	u, err := usersWithinBounds(ctx, r, name, s.router.CalendarUse)
	switch {
	case err != nil:
		return cannotSay(err, "the calendar")
	case u.Triggers == 0:
		return nil
	}
	return calendarInUse(&u)
}

// usersWithinBounds asks who names something, within usersWithin, and charges the caller's tenant.
func usersWithinBounds(ctx context.Context, r *request, name string,
	ask func(ctx context.Context, tenant, name string, cost *peer.Budget) (peer.Use, error),
) (peer.Use, error) {
	within, cancel := context.WithTimeout(ctx, usersWithin)
	defer cancel()
	var cost peer.Budget
	u, err := ask(within, r.who.Tenant, name, &cost)
	r.read.charge(int(cost.Cost()))
	if err != nil && within.Err() != nil {
		err = within.Err() // whichever partition was cut short
	}
	return u, err
}

// cannotSay says why nobody knows who names something, so that it stays.
func cannotSay(err error, what string) *problem.Problem {
	if errors.Is(err, context.DeadlineExceeded) {
		return problem.Unavailable(err, fmt.Sprintf("reading which triggers name %s takes longer than %s, so it "+
			"stays; try again when fewer reads are under way", what, usersWithin))
	}
	return problem.Unavailable(err, "not every partition can say which triggers name "+what+"; try again")
}

// calendarInUse says which triggers name the calendar. Triggers of other tenants are only
// counted.
func calendarInUse(u *peer.Use) *problem.Problem {
	p := problem.New(http.StatusConflict, trigger.CodeConflict, "name",
		usersOf(u)+": cancel them, or register them without it")
	p.Triggers, p.TriggerCount = u.IDs, u.Triggers
	return p
}

func usersOf(u *peer.Use) string {
	n := u.Triggers - int64(len(u.IDs))
	switch {
	case len(u.IDs) == 0 && n == 1:
		return "1 trigger of another tenant names the calendar"
	case len(u.IDs) == 0:
		return fmt.Sprintf("%d triggers of other tenants name the calendar", n)
	case n > 0:
		return fmt.Sprintf("%d triggers name the calendar, such as %s", u.Triggers, strings.Join(u.IDs, ", "))
	case n == 0 && len(u.IDs) == 1:
		return "1 trigger names the calendar: " + u.IDs[0]
	}
	return fmt.Sprintf("%d triggers name the calendar: %s", u.Triggers, strings.Join(u.IDs, ", "))
}
