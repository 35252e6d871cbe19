package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// askedLetters is a history in which each tenant has one dead letter, which says how often it was asked for.
type askedLetters struct{ asked atomic.Int64 }

func (l *askedLetters) Letters(_ context.Context, q topics.LetterQuery) (page topics.LetterPage, err error) {
	page.Items = []topics.Letter{{
		Tenant: q.Tenant, Trigger: "t", DueID: fmt.Sprintf("of [%s], %d", q.Tenant, l.asked.Add(1)), FailedAt: 1,
	}}
	return page, nil
}

func (l *askedLetters) LettersNext(context.Context) (letters, events map[int32]int64, err error) {
	return nil, nil, nil
}

// An answer serves callers of one tenant and role who ask the same and do without the newest, for a second.
func TestAnswersServeTheirTenantAndRole(t *testing.T) {
	now := &clock{at: time.Now()}
	letters := &askedLetters{}
	w := newWorld(t, func(o *Options) { o.Auth, o.Now, o.Letters = testKeys(t), now.read, letters })
	ask := func(key, query string) string {
		t.Helper()
		list := w.must(http.StatusOK, "GET", "/v1/dead-letters"+query, "", "Authorization", "Bearer "+key).body
		_, rest, _ := strings.Cut(list, `"ce_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	const stale = "?fresh=false"
	for _, step := range []struct {
		name, key, query string
		after            time.Duration
		want             string
	}{
		{"first", keyA, stale, 0, "of [acme], 1"},
		{"again", keyA, stale, answerAge - time.Millisecond, "of [acme], 1"},
		{"another role of the tenant", keyR, stale, 0, "of [acme], 2"},
		{"an operator of the tenant, who sees all", keyO, stale, 0, "of [], 3"},
		{"another tenant", keyB, stale, 0, "of [blue], 4"},
		{"another query", keyA, "?fresh=false&code=expired", 0, "of [acme], 5"},
		{"the same in another order", keyA, "?code=expired&fresh=false", 0, "of [acme], 5"},
		{"the newest", keyA, "", 0, "of [acme], 6"},
		{"the newest again", keyA, "?fresh=true", 0, "of [acme], 7"},
		{"one trigger's", keyA, "?fresh=false&trigger_id=t", 0, "of [acme], 8"},
		{"one trigger's again", keyA, "?fresh=false&trigger_id=t", 0, "of [acme], 9"},
		{"stale again", keyA, stale, 0, "of [acme], 1"},
		{"after a second", keyA, stale, time.Millisecond, "of [acme], 10"},
		{"the clock was put back", keyA, stale, -time.Millisecond, "of [acme], 11"},
	} {
		now.add(step.after)
		if got := ask(step.key, step.query); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
	a := w.call("HEAD", "/v1/dead-letters"+stale, "", "Authorization", "Bearer "+keyA)
	if a.status != http.StatusOK || a.body != "" {
		t.Errorf("HEAD: %d %s", a.status, a.body)
	}
	if n := letters.asked.Load(); n != 12 {
		t.Errorf("HEAD is answered from what GET has got: %d", n)
	}
}

// Of many who ask at one time, for many tenants, each gets the answer of its own tenant.
func TestManyShareAnswers(t *testing.T) {
	s, _ := newSharedAnswers(t)
	var all sync.WaitGroup
	var made atomic.Int64
	for i := range 2000 {
		all.Go(func() {
			who := auth.Caller{Tenant: fmt.Sprint("t", i%50), Role: auth.Role(1 << (i % 2))}
			want := fmt.Sprint(who.Tenant, who.Role)
			code, body := s.ask(t.Context(), who, "", func(w http.ResponseWriter, r *request) error {
				made.Add(1)
				_, err := fmt.Fprint(w, r.who.Tenant, r.who.Role)
				return err
			})
			if code != http.StatusOK || body != want {
				t.Errorf("%s got %d %s", want, code, body)
			}
		})
	}
	all.Wait()
	if n := made.Load(); n != 50 { // a tenant's number is even or odd, and so is the role
		t.Errorf("50 questions were answered %d times", n)
	}
}

// sharedWorld asks as the server does.
type sharedWorld struct {
	*sharedAnswers
	t testing.TB
}

func newSharedAnswers(t testing.TB) (*sharedWorld, *clock) {
	now := &clock{at: time.Now()}
	o := Options{Now: now.read, ReadRate: func(string) float64 { return 1000 }}.withDefaults()
	return &sharedWorld{&sharedAnswers{
		now: now.read, reads: newReads(&o), known: map[askedFor]*sharedAnswer{},
		panicked: func(*http.Request, any) {},
	}, t}, now
}

// ask returns the status and the body of the answer, or of its problem.
func (s *sharedWorld) ask(ctx context.Context, who auth.Caller, query string, h handler) (int, string) {
	out := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, "GET", "/v1/x?"+query, nil)
	err := s.send(&observed{ResponseWriter: out, route: &route{costly: true}},
		&request{Request: r, who: who, query: r.URL.Query()}, h)
	if err != nil {
		problem.Of(err).Send(out)
	}
	return out.Code, out.Body.String()
}

// writes is a handler that answers so.
func writes(answer string) handler {
	return func(w http.ResponseWriter, _ *request) error {
		_, err := fmt.Fprint(w, answer)
		return err
	}
}

var anybody = auth.Caller{Tenant: "acme", Role: auth.Reader}

// awaitWaiting waits until so many wait for the one answer that is being made.
func (s *sharedWorld) awaitWaiting(n int) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		waiting := 0
		for _, a := range s.known {
			if !a.made {
				waiting += a.waiting
			}
		}
		s.mu.Unlock()
		if waiting == n {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d wait, want %d", waiting, n)
		}
	}
}

// The first caller may leave: the others get the answer that it has asked for. Once all have left, it ends.
func TestSharedAnswerOutlivesItsFirstCaller(t *testing.T) {
	s, _ := newSharedAnswers(t)
	proceed, ended := make(chan struct{}), make(chan error, 1)
	h := func(w http.ResponseWriter, r *request) error {
		select {
		case <-proceed:
			return writes("answer")(w, r)
		case <-r.Context().Done():
			ended <- r.Context().Err()
			return r.Context().Err()
		}
	}
	first, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if code, body := s.ask(first, anybody, "", h); code != http.StatusServiceUnavailable {
			t.Errorf("who left got %d %s", code, body)
		}
	})
	s.awaitWaiting(1)
	all.Go(func() {
		if code, body := s.ask(t.Context(), anybody, "", h); code != http.StatusOK || body != "answer" {
			t.Errorf("who waited got %d %s", code, body)
		}
	})
	s.awaitWaiting(2)
	leave()
	s.awaitWaiting(1)
	close(proceed)
	all.Wait()

	proceed = nil
	both, leaveBoth := context.WithCancel(t.Context())
	for i := range 2 {
		all.Go(func() { s.ask(both, anybody, "again", h) })
		s.awaitWaiting(i + 1)
	}
	leaveBoth()
	all.Wait()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	code, body := s.ask(t.Context(), anybody, "again", writes("anew"))
	if code != http.StatusOK || body != "anew" {
		t.Errorf("who asks afterwards gets %d %s", code, body)
	}
}

// What fails is not kept. Those who wait share a failure of ours, and each hears of its own fault.
func TestFailuresAreNotKept(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func() error
		code  int
		calls int64 // of two who ask at one time
	}{
		{"unavailable", func() error { return problem.Unavailable(nil, "away") }, 503, 1},
		{"over the rate", func() error { return problem.TooMany(trigger.CodeQuotaExceeded, "rate", 1) }, 429, 1},
		{"forbidden", func() error { return problem.New(403, problem.CodeForbidden, "", "no") }, 403, 2},
		{"a panic", func() error { panic("at the handler") }, 500, 1},
	} {
		s, _ := newSharedAnswers(t)
		var calls atomic.Int64
		proceed := make(chan struct{})
		var all sync.WaitGroup
		for i := range 2 {
			all.Go(func() {
				code, body := s.ask(t.Context(), anybody, "", func(w http.ResponseWriter, r *request) error {
					if calls.Add(1) == 1 { // before it fails
						_ = writes("half")(w, r)
					}
					<-proceed
					return c.fails()
				})
				if code != c.code {
					t.Errorf("%s: %d %s", c.name, code, body)
				}
			})
			s.awaitWaiting(i + 1)
		}
		close(proceed)
		all.Wait()
		if n := calls.Load(); n != c.calls {
			t.Errorf("%s: two callers, %d calls", c.name, n)
		}
		code, body := s.ask(t.Context(), anybody, "", writes("well"))
		if code != http.StatusOK || body != "well" {
			t.Errorf("after %s: %d %s", c.name, code, body)
		}
	}
}

// What is kept is bounded: by answers, by the bytes of one, and by the bytes of all. A tenant leaves others as much as
// it has. What is not kept is answered.
func TestSharedAnswersAreBounded(t *testing.T) {
	for _, c := range []struct{ size, asked, kept int }{
		{10, mostAnswers + 50, mostAnswers / 2},
		{mostAnswerBytes, 50, mostBytesOfAll / mostAnswerBytes / 2},
		{mostAnswerBytes + 1, 50, 0},
	} {
		s, now := newSharedAnswers(t)
		answer := strings.Repeat("x", c.size)
		for i := range c.asked {
			code, body := s.ask(t.Context(), anybody, fmt.Sprint("q=", i), writes(answer))
			if code != http.StatusOK || body != answer {
				t.Fatalf("of %d bytes: %d, %d bytes", c.size, code, len(body))
			}
		}
		if len(s.known) != c.kept || s.held != c.kept*c.size {
			t.Errorf("of %d bytes: %d are kept with %d bytes, want %d", c.size, len(s.known), s.held, c.kept)
		}
		if c.size < 100 {
			other := anybody
			other.Tenant = "blue"
			if s.ask(t.Context(), other, "q=1", writes(answer)); len(s.known) != c.kept+1 {
				t.Error("one tenant has all the room")
			}
		}
		now.add(answerAge)
		s.ask(t.Context(), anybody, "q=next", writes("1"))
		if len(s.known) != 1 || s.held != 1 {
			t.Errorf("of %d bytes: a second later %d are kept with %d bytes", c.size, len(s.known), s.held)
		}
	}
}

// Who gets an answer that another has paid for holds no slot, and pays next to nothing. A tenant that has overdrawn its
// rate gets none.
func TestSharedAnswersCostLittle(t *testing.T) {
	now := &clock{at: time.Now()}
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Now, o.Reads, o.Letters = testKeys(t), now.read, 1, &askedLetters{}
		o.ReadRate = func(string) float64 { return leastCost / readBurst } // one read at once
	})
	const path = "/v1/dead-letters?fresh=false"
	a := []string{"Authorization", "Bearer " + keyA}
	left := func() int { return int(w.server.reads.quota.limiter("acme").TokensAt(now.read())) }
	before := left()
	w.must(http.StatusOK, "GET", path, "", a...)
	if paid := before - left(); paid != leastCost {
		t.Errorf("the first pays %d", paid)
	}
	w.must(http.StatusTooManyRequests, "GET", path, "", a...)
	now.add(answerAge / 2)
	before = left()
	held, err := w.server.reads.begin(t.Context(), "acme", &peer.Budget{})
	if err != nil {
		t.Fatal(err)
	}
	w.must(http.StatusOK, "GET", path, "", a...)
	held.end()
	if paid := before - left() - leastCost; paid != 1 {
		t.Errorf("the next pays %d", paid)
	}
}

// Only what is asked for often and depends on nothing else of a request is shared.
func TestWhatIsShared(t *testing.T) {
	var shared []string
	for _, r := range allRoutes(&parts{}) {
		if !r.shared {
			continue
		}
		shared = append(shared, r.pattern)
		if r.method != http.MethodGet || r.right != auth.Read && r.right != auth.Operate || r.doc.streams ||
			len(r.doc.headers) > 0 || strings.Contains(r.pattern, "{") {
			t.Errorf("%s %s is shared", r.method, r.pattern)
		}
	}
	slices.Sort(shared)
	want := []string{
		"/v1/channels", "/v1/dead-letters", "/v1/endpoints", "/v1/forecast", "/v1/lateness", "/v1/partitions",
	}
	if !slices.Equal(shared, want) {
		t.Errorf("shared are %q", shared)
	}
}
