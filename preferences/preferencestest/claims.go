package preferencestest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/preferences"
)

// noon is when the tests send messages. Claims use no other clock.
var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// note is a message to ada on channel push.
func note(id, kind string, change ...func(*preferences.Message)) preferences.Message {
	m := preferences.Message{User: ada, Channel: "push", ID: id + "#0", Occurrence: id, Type: kind}
	for _, c := range change {
		c(&m)
	}
	return m
}

func high(m *preferences.Message)  { m.High = true }
func asked(m *preferences.Message) { m.Asked = true }
func toBob(m *preferences.Message) { m.User = bob }
func bySMS(m *preferences.Message) { m.Channel = "sms" }

func step(n int) func(*preferences.Message) {
	return func(m *preferences.Message) { m.ID = fmt.Sprint(m.Occurrence, "#", n) }
}

// admitted sends messages in one call, so long after noon, and checks the answers.
func admitted(
	t testing.TB, s preferences.Store, l preferences.Limits, after time.Duration, list []preferences.Message,
	want ...string,
) {
	t.Helper()
	got, err := s.Admit(t.Context(), noon.Add(after), l, list)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v after noon: %q, %v; want %q", after, got, err, want)
	}
}

func one(m preferences.Message) []preferences.Message { return []preferences.Message{m} }

func testNoLimits(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	admitted(t, s, preferences.Limits{}, 0, nil)
	admitted(t, s, preferences.Limits{}, 0, []preferences.Message{note("a", "x"), note("b", "x")}, "", "")
}

func testDuplicates(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Window: 10 * time.Minute}
	admitted(t, s, l, 0, one(note("a", "x")), "")
	for _, c := range []struct {
		name string
		m    preferences.Message
		want string
	}{
		{"the same type", note("b", "x"), preferences.CodeDuplicate},
		{"priority high", note("c", "x", high), preferences.CodeDuplicate},
		{"another type", note("d", "y"), ""},
		{"no type", note("e", ""), ""},
		{"no type, twice", note("f", ""), ""},
		{"another user", note("g", "x", toBob), ""},
		{"another channel", note("h", "x", bySMS), ""},
		{"a later step of the same occurrence", note("a", "x", step(1)), ""},
		{"it was asked for", note("i", "x", asked), ""},
	} {
		if got, err := s.Admit(t.Context(), noon.Add(time.Minute), l, one(c.m)); err != nil || got[0] != c.want {
			t.Fatalf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	// The message that was asked for at 12:01 is the newest. A refused message does not extend
	// the window.
	admitted(t, s, l, 11*time.Minute-time.Millisecond, one(note("j", "x")), preferences.CodeDuplicate)
	admitted(t, s, l, 11*time.Minute, one(note("k", "x")), "")
}

// Within one call, messages see the earlier ones.
func testAtOnce(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Window: time.Minute, Caps: []preferences.Cap{{Most: 2, Within: time.Hour}}}
	admitted(t, s, l, 0, []preferences.Message{
		note("a", "x"), note("b", "x"), note("a", "x"), note("c", "y"), note("d", "z"), note("e", "x", toBob),
	}, "", preferences.CodeDuplicate, "", "", preferences.CodeCapped, "")
}

func testCaps(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Caps: []preferences.Cap{{Most: 2, Within: time.Hour}, {Most: 3, Within: 24 * time.Hour}}}
	admitted(t, s, l, 0, one(note("a", "")), "")
	admitted(t, s, l, 30*time.Minute, one(note("b", "")), "")
	admitted(t, s, l, 59*time.Minute, one(note("c", "")), preferences.CodeCapped)
	admitted(t, s, l, 59*time.Minute, one(note("d", "", toBob)), "")
	admitted(t, s, l, 59*time.Minute, one(note("e", "", bySMS)), "")
	admitted(t, s, l, 60*time.Minute, one(note("f", "")), "") // a was an hour ago
	admitted(t, s, l, 3*time.Hour, one(note("g", "")), preferences.CodeCapped)
	admitted(t, s, l, 3*time.Hour, one(note("h", "", high)), "")
	admitted(t, s, l, 24*time.Hour, one(note("i", "")), preferences.CodeCapped) // b, f and h
	admitted(t, s, l, 24*time.Hour+30*time.Minute, one(note("j", "")), "")
}

// A decision on a message stays, even if the limits change.
func testOneVerdict(t *testing.T, s preferences.Store, reopen func() preferences.Store) {
	l := preferences.Limits{Window: time.Minute, Caps: []preferences.Cap{{Most: 1, Within: time.Minute}}}
	admitted(t, s, l, 0, one(note("a", "x")), "")
	admitted(t, s, l, 0, one(note("b", "x")), preferences.CodeDuplicate)
	admitted(t, s, l, 0, one(note("c", "y")), preferences.CodeCapped)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen()
	defer s.Close()
	for _, after := range []time.Duration{0, time.Hour, 20 * time.Hour} {
		admitted(t, s, l, after, []preferences.Message{note("b", "x"), note("c", "y"), note("a", "x")},
			preferences.CodeDuplicate, preferences.CodeCapped, "")
	}
	admitted(t, s, preferences.Limits{}, 21*time.Hour, one(note("b", "x")), preferences.CodeDuplicate)
}

func testRelease(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Window: time.Hour, Caps: []preferences.Cap{{Most: 1, Within: time.Hour}}}
	a := note("a", "x")
	admitted(t, s, l, 0, one(a), "")
	admitted(t, s, l, time.Minute, one(note("b", "x")), preferences.CodeDuplicate)
	for range 2 {
		if err := s.Release(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Release(t.Context(), note("never", "")); err != nil {
		t.Fatal(err)
	}
	admitted(t, s, l, 2*time.Minute, one(note("c", "x")), "")
	admitted(t, s, l, 3*time.Minute, one(a), preferences.CodeDuplicate) // redriven, and too late
}

func testSweep(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Window: time.Hour}
	const kept = 25 * time.Hour
	swept := func(after time.Duration, most, want int) {
		t.Helper()
		if n, err := s.Sweep(t.Context(), noon.Add(after), most); n != want || err != nil {
			t.Fatalf("%v after noon %d were swept, %v; want %d", after, n, err, want)
		}
	}
	admitted(t, s, l, 0, []preferences.Message{note("a", "x"), note("b", "x"), note("c", "y", toBob)},
		"", preferences.CodeDuplicate, "")
	admitted(t, s, l, time.Hour, one(note("a", "x")), "") // a later attempt extends the claim
	swept(kept-time.Millisecond, 10, 0)
	swept(kept, 1, 1)
	swept(kept, 10, 1)
	swept(kept, 10, 0)
	swept(kept+time.Hour-time.Millisecond, 10, 0)
	admitted(t, s, l, 2*time.Minute, one(note("d", "x")), preferences.CodeDuplicate) // a is still there
	swept(kept+time.Hour, 10, 2)
	admitted(t, s, l, 3*time.Minute, one(note("e", "x")), "")
}

// Many workers at once send exactly as many messages as the cap allows, and only the first of a
// type.
func testRace(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	const workers, each = 4, 12
	l := preferences.Limits{Window: time.Hour, Caps: []preferences.Cap{{Most: 5, Within: time.Hour}}}
	var mu sync.Mutex
	count := map[string]map[string]int{"ada": {}, "bob/ü:1": {}} // by user and code
	kinds := map[string]int{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			var list []preferences.Message
			for i := range each {
				m := note(fmt.Sprint(w, "-", i), fmt.Sprint("kind", r.IntN(9)))
				list = append(list, m)
				toBob(&m)
				list = append(list, m)
			}
			r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			codes, err := s.Admit(t.Context(), noon, l, list)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, m := range list {
				count[m.User.ID][codes[i]]++
				if codes[i] == "" {
					kinds[m.User.ID+m.Type]++
				}
			}
		})
	}
	wg.Wait()
	for user, n := range count {
		if n[""] != 5 {
			t.Errorf("%s has %d messages, want 5 (%v)", user, n[""], n)
		}
	}
	for kind, n := range kinds {
		if n != 1 {
			t.Errorf("%s was sent %d times", kind, n)
		}
	}
}

// If several workers have one message at once, all get the same answer.
func testSameMessage(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Caps: []preferences.Cap{{Most: 3, Within: time.Hour}}}
	answers := make([][]string, 4)
	var list []preferences.Message
	for i := range 8 {
		list = append(list, note(fmt.Sprint(i), ""))
	}
	var wg sync.WaitGroup
	for w := range answers {
		wg.Go(func() {
			mine := slices.Clone(list)
			if w%2 == 1 {
				slices.Reverse(mine)
			}
			codes, err := s.Admit(t.Context(), noon, l, mine)
			if err != nil {
				t.Error(err)
			}
			if w%2 == 1 {
				slices.Reverse(codes)
			}
			answers[w] = codes
		})
	}
	wg.Wait()
	sent := 0
	for i := range list {
		for w := range answers {
			if len(answers[w]) != len(list) || answers[w][i] != answers[0][i] {
				t.Fatalf("the workers disagree: %q", answers)
			}
		}
		if answers[0][i] == "" {
			sent++
		}
	}
	if sent != 3 {
		t.Errorf("%d were sent, want 3: %q", sent, answers[0])
	}
}

// There are more users than one transaction locks.
func testManyClaims(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	l := preferences.Limits{Caps: []preferences.Cap{{Most: 1, Within: time.Hour}}}
	var list []preferences.Message
	for i := range BatchSize {
		m := note(fmt.Sprint(i), "")
		m.User.ID = fmt.Sprint("user-", i/2)
		list = append(list, m)
	}
	codes, err := s.Admit(t.Context(), noon, l, list)
	if err != nil || len(codes) != len(list) {
		t.Fatal(len(codes), err)
	}
	for i, code := range codes {
		if want := []string{"", preferences.CodeCapped}[i%2]; code != want {
			t.Fatalf("message %d: %q, want %q", i, code, want)
		}
	}
}

// A store decides like a plain list of everything that was sent.
func testModel(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	l := preferences.Limits{
		Window: time.Duration(r.IntN(20)) * time.Minute,
		Caps: []preferences.Cap{
			{Most: 1 + r.IntN(5), Within: time.Hour}, {Most: 5 + r.IntN(9), Within: 5 * time.Hour},
		},
	}
	all := map[string]*preferences.Ledger{}
	var made []preferences.Message
	at := noon
	for range 40 {
		at = at.Add(time.Duration(r.IntN(20)) * time.Minute)
		var list []preferences.Message
		var want []string
		for range 1 + r.IntN(4) {
			m := note(fmt.Sprint("n", len(made)), []string{"", "x", "y"}[r.IntN(3)])
			m.High, m.Asked = r.IntN(5) == 0, r.IntN(8) == 0
			if r.IntN(3) == 0 {
				toBob(&m)
			}
			if len(made) > 0 && r.IntN(4) == 0 {
				m = made[r.IntN(len(made))]
			}
			made, list = append(made, m), append(list, m)
			if all[m.User.ID] == nil {
				all[m.User.ID] = &preferences.Ledger{}
			}
			want = append(want, all[m.User.ID].Admit(l, at, m))
		}
		got, err := s.Admit(t.Context(), at, l, list)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v at %v: %q, %v; want %q", list, at, got, err, want)
		}
	}
}

func testClaimsEnded(t *testing.T, s preferences.Store, _ func() preferences.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := preferences.Limits{Caps: []preferences.Cap{{Most: 1, Within: time.Hour}}}
	if _, err := s.Admit(ctx, noon, l, one(note("a", ""))); !errors.Is(err, context.Canceled) {
		t.Errorf("Admit: %v", err)
	}
	if err := s.Release(ctx, note("a", "")); !errors.Is(err, context.Canceled) {
		t.Errorf("Release: %v", err)
	}
	admitted(t, s, l, 0, one(note("b", "")), "")
}
