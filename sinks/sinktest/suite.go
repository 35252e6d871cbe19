// Package sinktest tests what every sinks.History must do. Each sink's tests call Run. Because
// all sinks give the same answers, a user can start with the embedded one and move to Cassandra.
package sinktest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
)

// Config configures the sink that a test opens.
type Config struct {
	Retention time.Duration
}

// Open opens a sink for one test and closes it with the test. Each test has its own tenant, so
// all may share one keyspace or directory.
type Open func(t testing.TB, c Config) sinks.History

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"Life", testLife},
		{"EveryField", testEveryField},
		{"Payloads", testPayloads},
		{"Nothing", testNothing},
		{"UnknownTrigger", testUnknownTrigger},
		{"StateKeepsTheNewestWord", testStateNewest},
		{"UnicodeKeys", testUnicodeKeys},
		{"Replay", testReplay},
		{"OutOfOrder", testOutOfOrder},
		{"DuplicatesInOneBatch", testDuplicates},
		{"Model", testModel},
		{"ConcurrentTriggers", testConcurrent},
		{"EraBoundaries", testEras},
		{"Paging", testPaging},
		{"TenThousandEvents", testTenThousand},
		{"Minute", testMinute},
		{"MinutePaging", testMinutePaging},
		{"Erase", testErase},
		{"EraseMissed", testEraseMissed},
		{"EraseAndNewLife", testEraseThenNewLife},
		{"Expiry", testExpiry},
		{"LivingStateOutlivesRetention", testLivingState},
		{"Ages", testAges},
		{"Progress", testProgress},
		{"Cancelled", testCancelled},
		{"Letters", testLetters},
		{"LetterFilters", testLetterFilters},
		{"LetterTenants", testLetterTenants},
		{"LetterEnds", testLetterEnds},
		{"LettersErasedAhead", testLettersErasedAhead},
		{"LettersOfNewLife", testLettersOfNewLife},
		{"LettersEnd", testLettersEnd},
		{"LetterProgress", testLetterProgress},
		{"ManyLetters", testManyLetters},
		{"LettersOfOnePage", testLettersOfOnePage},
		{"Notification", testNotification},
		{"NotificationsOfNobody", testNotificationsOfNobody},
		{"NotificationOfLateUser", testLateUser},
		{"NotificationWithoutReceipts", testNoReceipts},
		{"NotificationRedriven", testRedriven},
		{"NotificationMonths", testNotificationMonths},
		{"NotificationTenants", testNotificationTenants},
		{"NotificationModel", testNotificationModel},
		{"NotificationErase", testNotificationErase},
		{"NotificationExpiry", testNotificationExpiry},
		{"ManyNotifications", testManyNotifications},
		{"ContentProgress", testContentProgress},
		{"TriggersOfUser", testTriggersOfUser},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, newWorld(t, open)) })
	}
}

// world is one test's part of a sink: it has its own tenant and clock.
type world struct {
	t      *testing.T
	open   Open
	h      sinks.History
	tenant string
	rand   *rand.Rand
	start  time.Time // time of the first event, a day ago
	ahead  int       // minutes, of futureMinute
	us     int64
	offset int64
	seq    map[string]int64
}

// partition is the only partition of a test's events, so that the test can find its Progress.
const partition = 7

func newWorld(t *testing.T, open Open) *world {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{t: t, open: open, rand: rand.New(rand.NewPCG(seed, 1)), seq: map[string]int64{}}
	w.tenant = fmt.Sprintf("t%08x", w.rand.Uint32())
	w.start = time.Now().UTC().Add(-24 * time.Hour).Truncate(time.Millisecond)
	w.h = open(t, Config{Retention: 90 * 24 * time.Hour})
	return w
}

// reopen opens the sink with another retention.
func (w *world) reopen(retention time.Duration) {
	w.t.Helper()
	w.h = w.open(w.t, Config{Retention: retention})
}
