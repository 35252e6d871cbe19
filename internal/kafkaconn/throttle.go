package kafkaconn

import (
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Throttle counts for how long brokers have told clients to pause, since a quota
// is used up: kgo pauses, and nobody would know why everything is slow. It is a
// kgo.HookBrokerThrottle, for any number of clients.
type Throttle struct {
	now func() time.Time
	log *slog.Logger // nil: none

	mu      sync.Mutex
	total   time.Duration
	answers int64
	recent  [throttleWindow]time.Duration // by second, modulo its length
	second  int64                         // newest of recent
}

// throttleWindow is of how many seconds Recent is.
const throttleWindow = 60

// NewThrottle makes one; now is for tests, nil means time.Now. Each answer is a warning of the log, if there is one: a
// log that folds warnings has one line for all of them.
func NewThrottle(now func() time.Time, log *slog.Logger) *Throttle {
	if now == nil {
		now = time.Now
	}
	return &Throttle{now: now, log: log}
}

var _ kgo.HookBrokerThrottle = (*Throttle)(nil)

// OnBrokerThrottle is kgo's.
func (t *Throttle) OnBrokerThrottle(broker kgo.BrokerMetadata, pause time.Duration, _ bool) {
	if t.log != nil {
		t.log.Warn("Kafka slows this process down: it uses more than its quota allows", "broker", broker.NodeID,
			"pause", pause, "advice", "raise the quota of this user or client id; `waterclock doctor` names it")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance()
	t.total += pause
	t.answers++
	t.recent[t.second%throttleWindow] += pause
}

// advance empties the seconds that have passed.
func (t *Throttle) advance() {
	now := t.now().Unix()
	for s := max(t.second+1, now-throttleWindow+1); s <= now; s++ {
		t.recent[s%throttleWindow] = 0
	}
	t.second = max(t.second, now)
}

// Total is how long clients were told to pause, in how many answers.
func (t *Throttle) Total() (pause time.Duration, answers int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total, t.answers
}

// Recent is the same of the last minute; pauses of several clients add up.
func (t *Throttle) Recent() (pause time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance()
	for _, p := range t.recent {
		pause += p
	}
	return pause
}
