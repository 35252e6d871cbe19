package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const (
	redriveReport = time.Second // a line at least as often, whatever it waits for
	// aloneReport is when a redrive of one letter says its first line. From then on a refusal is a line, and no
	// status. It is longer than reading the letter and asking for the decision may take.
	aloneReport = 15 * time.Second
)

// refuse counts a letter that cannot be redriven, and says why.
func (j *redrive) refuse(l *topics.Letter, err error) {
	j.totals.Refused++
	p := *problem.Of(err)
	p.TriggerID, p.ID = trigger.Key(l.Trigger).ID(), l.DueID
	if j.alone && !j.begun {
		j.only = &p
		return
	}
	j.say(&p)
}

// reporting waits until work is done, and meanwhile says how far it is: clients close a connection that is silent
// for a minute. The work must leave the answer and its totals alone. If it panics, so does the caller.
func (j *redrive) reporting(work func() error) error {
	if j.asked.IsZero() { // nothing is said yet: a refusal has a status of its own
		return work()
	}
	done, panicked := make(chan error, 1), make(chan any, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				panicked <- v
			}
		}()
		done <- work()
	}()
	for {
		timer := time.NewTimer(j.untilReport())
		select {
		case err := <-done:
			timer.Stop()
			return err
		case v := <-panicked:
			panic(v)
		case <-timer.C:
			if j.only == nil {
				j.say(&j.totals)
			}
		}
	}
}

// untilReport is how long it may be silent from now on.
func (j *redrive) untilReport() time.Duration {
	last, silent := j.spoke, redriveReport
	if !j.begun {
		last = j.asked
		if j.alone {
			silent = aloneReport
		}
	}
	return time.Until(last.Add(silent))
}

// report says how far it is, now and then.
func (j *redrive) report() {
	if time.Since(j.spoke) >= redriveReport {
		j.say(&j.totals)
	}
}

// say writes a line. Who has hung up is noticed by the request's context.
func (j *redrive) say(line any) {
	if !j.begun {
		j.begun = true
		j.w.Header().Set("Content-Type", "application/x-ndjson")
		j.w.WriteHeader(http.StatusOK)
	}
	if p, ok := line.(*RedriveProgress); ok {
		p.DryRun, j.spoke = j.dry, time.Now()
	}
	_ = j.out.SetWriteDeadline(time.Now().Add(responseWithin))
	_, _ = j.w.Write(append(spell(line), '\n'))
	if err := j.out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		j.s.log.Debug("the caller of a redrive has disconnected", "error", err)
	}
}
