// Package sinktest says what every sinks.History must do. A sink's own tests
// call Run; the same answers from all of them are what lets a user begin with
// the embedded one and go over to Cassandra.
package sinktest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
)

// Config is what a test wants of the sink it opens.
type Config struct {
	Retention time.Duration
}

// Open opens a sink for one test and closes it with the test. Tests keep apart
// by their tenants, so all may share one keyspace or directory.
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
		{"LettersOfNewLife", testLettersOfNewLife},
		{"LettersEnd", testLettersEnd},
		{"LetterProgress", testLetterProgress},
		{"ManyLetters", testManyLetters},
		{"Notification", testNotification},
		{"NotificationsOfNobody", testNotificationsOfNobody},
		{"NotificationOfLateUser", testLateUser},
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

// world is one test's corner of a sink: a tenant and a clock of its own.
type world struct {
	t      *testing.T
	open   Open
	h      sinks.History
	tenant string
	rand   *rand.Rand
	start  time.Time // events begin here, a day ago
	ahead  int       // minutes, of futureMinute
	us     int64
	offset int64
	seq    map[string]int64
}

// partition is where a test's events are; one per test, so that Progress can be
// told apart.
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
