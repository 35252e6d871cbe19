package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// escalating is the number of triggers with an escalation, and stepChannel is where their steps go.
const (
	escalating  = 3
	stepChannel = "r-step"
)

// escalate sends commands for triggers with an escalation, and receipts for their steps. It has random
// numbers of its own, so that all other triggers live as they would without these.
func (l *life) escalate(rng *rand.Rand, span time.Duration) {
	for begin := time.Now(); time.Since(begin) < span; {
		if rng.IntN(3) == 0 {
			l.answerStep(rng)
		} else {
			n := rng.IntN(escalating)
			key := fmt.Sprint("e", n)
			l.SendFree(l.astray(rng, key), key, ladderCommand(rng, n))
		}
		time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
	}
}

// ladderCommand returns a random command for trigger n, which has one rule in all its lives, as orderedRules says.
func ladderCommand(rng *rand.Rand, n int) string {
	steps := fmt.Sprintf(
		`"escalation":[{"channel":%[1]q},{"after":%[2]q,"channel":%[1]q},{"after":%[3]q,"channel":%[4]q}]`, stepChannel,
		pick(rng, "2s", "20s", "4m"), pick(rng, "1s", "10s", "2h"), pick(rng, stepChannel, "default"))
	switch rng.IntN(10) {
	case 0, 1, 2:
		return fmt.Sprintf(`{"op":"register","delay":"%ds",%s%s}`, 1+rng.IntN(20), steps,
			pick(rng, "", `,"user_id":"u"`, `,"expires_after":"3m"`))
	case 3:
		return `{"op":"register","recurrence":` + []string{`"every:40s"`, `"every:3h"`}[n%2] + `,` + steps + `}`
	case 4:
		return `{"op":"ack"}`
	case 5:
		return `{"op":"cancel"}`
	}
	return pick(rng, `{"op":"erase"}`, `{"op":"pause"}`, `{"op":"resume"}`, `{"op":"snooze","for":"15s"}`,
		`{"op":"run_now"}`)
}

// answerStep sends a receipt for one of the newest steps.
func (l *life) answerStep(rng *rand.Rand) {
	all := l.Dump(l.Names.Due(stepChannel))
	if len(all) == 0 {
		return
	}
	d := all[len(all)-1-rng.IntN(min(4, len(all)))]
	outcome := pick(rng, `"delivered"`, `"accepted"`, `"accepted"`, `"failed"`, `"retry"`, `"suppressed"`,
		`"postponed","retry_after":"10s"`, `"postponed","retry_after":"20s","code":"quiet_hours"`)
	l.Receipt(pipelinetest.Header(d, "ce_subject"), fmt.Sprintf(`{"due_id":%q,"attempt":%s,"outcome":%s}`,
		pipelinetest.Header(d, "ce_id"), pipelinetest.Header(d, "ce_wcattempt"), outcome))
}
