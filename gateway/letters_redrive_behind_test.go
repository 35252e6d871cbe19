package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/topics"
)

// laggingLetters is a history that has read nothing yet, while behind.
type laggingLetters struct {
	of     Letters
	behind atomic.Bool
}

func (l *laggingLetters) Letters(ctx context.Context, q topics.LetterQuery) (topics.LetterPage, error) {
	return l.of.Letters(ctx, q)
}

func (l *laggingLetters) LettersNext(ctx context.Context) (letters, events map[int32]int64, err error) {
	if l.behind.Load() {
		return nil, nil, nil
	}
	return l.of.LettersNext(ctx)
}

// newLagging is a world with one dead letter, of trigger k, which the history has. From then on that can fall behind.
func newLagging(t *testing.T, within time.Duration) (*letterWorld, *laggingLetters) {
	t.Helper()
	history := &laggingLetters{}
	w := newLetterWorld(t, func(o *Options) {
		history.of = o.Letters
		o.Letters, o.ReadWithin = history, within
	})
	w.dead(idKey("k"), "http_500")
	w.ids("")
	return w, history
}

// A redrive goes by what the history says of each letter. While that is behind, it waits, and then sends nothing: a
// letter may have been redriven before, longer ago than the engine remembers.
func TestRedriveWithHistoryBehind(t *testing.T) {
	w, history := newLagging(t, 3*time.Second)
	history.behind.Store(true)
	for _, body := range []string{`{"all":true}`, `{"trigger_id":"k"}`} {
		a := w.must(http.StatusServiceUnavailable, http.MethodPost, "/v1/dead-letters:redrive", body)
		if !strings.Contains(a.get(t, "detail"), "behind") || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	if n := w.redrives(); n != 0 {
		t.Errorf("%d letters went out", n)
	}
	if got, _ := w.redrive(`{"all":true,"dry_run":true}`); got.Matched != 1 {
		t.Errorf("a dry run, which sends nothing: %+v", got)
	}
	time.AfterFunc(2*time.Second, func() { history.behind.Store(false) })
	if got, _ := w.redrive(`{"all":true}`); got.Redriven != 1 {
		t.Errorf("once the history is there: %+v", got)
	}
}

// A partition whose records are all gone is not one that the history has yet to read.
func TestRedriveWhereTheLogIsEmpty(t *testing.T) {
	w, history := newLagging(t, 2*time.Second)
	admin := kadm.NewClient(w.cl)
	ends, err := admin.ListEndOffsets(t.Context(), topics.Names{}.DeadLetter())
	if err == nil {
		_, err = admin.DeleteRecords(t.Context(), ends.Offsets())
	}
	if err != nil {
		t.Fatal(err)
	}
	history.behind.Store(true)
	if got, _ := w.redrive(`{"all":true}`); got.Refused != 1 {
		t.Errorf("of a letter that the topic has dropped: %+v", got)
	}
}
