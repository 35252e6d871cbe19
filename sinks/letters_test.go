package sinks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A slow store's page is short and has a cursor for the next one. It does not fail, however many
// letters do not match.
func TestLetterPageOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all, within, each = 20_000, 2 * time.Second, 300 * time.Millisecond
		rows := func(ctx context.Context, q topics.LetterQuery, n int) (list []topics.Letter, more bool, err error) {
			time.Sleep(each)
			first := int64(q.After.FailedAt) + 1
			for i := first; i < min(first+int64(n), all); i++ {
				list = append(list, topics.Letter{FailedAt: trigger.Instant(i), Status: topics.LetterRedriven})
			}
			return list, first+int64(n) < all, ctx.Err()
		}
		ends := func(ctx context.Context, _ []*topics.Letter) error { return ctx.Err() }
		q, visited := topics.LetterQuery{Limit: 1000}, 0
		for pages := 0; ; pages++ {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			page, err := sinks.LetterPage(ctx, q, rows, ends)
			cancel()
			if err != nil {
				t.Fatalf("page %d, after %d letters: %v", pages, visited, err)
			}
			visited += page.Visited
			if q.After = page.Next; q.After.IsZero() {
				break
			}
		}
		if visited != all-1 { // the zero cursor is before the letter of instant 1
			t.Errorf("%d letters were looked at, want %d", visited, all-1)
		}
	})
}

// A page whose caller left, or whose time is up, has visited what the store was asked for: nobody knows how much it
// read. A store that fails by itself has not.
func TestLetterPageThatIsCutOff(t *testing.T) {
	broken := errors.New("the store is broken")
	for name, c := range map[string]struct {
		left bool
		rows error
		want int
	}{
		"its caller left":                    {true, context.Canceled, 50},
		"its caller left before it was told": {true, nil, 30},
		"the store fails":                    {false, broken, 0},
	} {
		ctx, leave := context.WithCancel(t.Context())
		rows := func(_ context.Context, _ topics.LetterQuery, _ int) ([]topics.Letter, bool, error) {
			if c.left {
				leave()
			}
			return make([]topics.Letter, 30), true, c.rows
		}
		ends := func(ctx context.Context, _ []*topics.Letter) error { return ctx.Err() }
		page, err := sinks.LetterPage(ctx, topics.LetterQuery{Limit: 50}, rows, ends)
		if leave(); err == nil || page.Visited != c.want {
			t.Errorf("%s: %d visited, %v, want %d and an error", name, page.Visited, err, c.want)
		}
	}
}
