package fair

import "github.com/waterclock/waterclock/trigger"

// pacer is the rate of catching up. It is a token bucket, with one token for each missed
// occurrence that fire_all fires. Tokens are spent in pulses, because a turn for each
// occurrence would cost a transaction for each.
type pacer struct {
	rate   float64 // per second; 0 or less: no limit
	tokens float64
	at     trigger.Instant // when tokens were last counted; 0: never, and the bucket is full
}

// pulse is how long tokens are collected, in ms.
const pulse = 50

// share is how many occurrences fire in one pulse.
func (p *pacer) share() float64 { return max(1, p.rate*pulse/1000) }

// grant spends the tokens of up to n occurrences.
func (p *pacer) grant(n int, now trigger.Instant) int {
	if p.rate <= 0 || n == 0 {
		return n
	}
	p.count(now)
	n = min(n, int(p.tokens))
	p.tokens -= float64(n)
	return n
}

// count adds the tokens since the last count. A clock that steps back adds none, and one
// that leaps ahead adds at most two pulses.
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

// next is when there are tokens for a pulse, or for n if that is less.
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
