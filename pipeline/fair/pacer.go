package fair

import "github.com/waterclock/waterclock/trigger"

// pacer is the rate of catching up: a bucket of tokens, one for each missed
// occurrence that fire_all lets fire. They go in pulses, because a turn for
// each would cost a transaction for each.
type pacer struct {
	rate   float64 // a second; 0 or less: no bound
	tokens float64
	at     trigger.Instant // when tokens were counted; 0: never, and the bucket is full
}

// pulse is how long tokens are gathered, in ms.
const pulse = 50

// share is how many go in one pulse.
func (p *pacer) share() float64 { return max(1, p.rate*pulse/1000) }

// grant takes the tokens of up to n occurrences.
func (p *pacer) grant(n int, now trigger.Instant) int {
	if p.rate <= 0 || n == 0 {
		return n
	}
	p.count(now)
	n = min(n, int(p.tokens))
	p.tokens -= float64(n)
	return n
}

// count adds what has come since the last look. A clock that steps back adds
// nothing, and one that leaps no more than two pulses.
func (p *pacer) count(now trigger.Instant) {
	most := 2 * p.share()
	switch {
	case p.at == 0:
		p.tokens = most
	case now > p.at:
		p.tokens = min(most, p.tokens+p.rate*float64(now-p.at)/1000)
	}
	p.at = now
}

// next is when there are tokens for a pulse, or for all n if they are fewer.
func (p *pacer) next(n int, now trigger.Instant) trigger.Instant {
	if p.rate <= 0 {
		return now
	}
	p.count(now)
	if lack := min(float64(n), p.share()) - p.tokens; lack > 0 {
		return now + 1 + trigger.Instant(1000*lack/p.rate)
	}
	return now
}
