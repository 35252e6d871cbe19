package live

import (
	"fmt"
	"strings"
	"testing"
)

const now = 1_795_000_000_000

// turn commits a turn with n facts of each of the tenants.
func turn(r *Recent, nowMS int64, n int, tenants ...string) (encoded int) {
	t := r.Begin(nowMS)
	for i := range n {
		for _, tenant := range tenants {
			if t.Wants(tenant) {
				encoded++
				t.Keep(tenant, fmt.Appendf(nil, `"%s %d"`, tenant, i))
			}
		}
	}
	r.Commit(nowMS, t)
	return encoded
}

// asker asks as a gateway does: each time from where the answer before has ended.
type asker struct {
	r  *Recent
	at Asked
}

func (a *asker) ask(nowMS int64) News {
	news := a.r.News(nowMS, []Asked{a.at})[0]
	a.at.Life, a.at.Next = news.Life, news.Next
	return news
}

func (n News) text() string {
	var all []string
	for _, f := range n.Facts {
		all = append(all, string(f))
	}
	return strings.Join(all, " ")
}

// Nothing is kept or encoded until somebody asks, of nobody but whom they ask for, and not for
// longer than they ask.
func TestNobodyWatches(t *testing.T) {
	r := NewRecent()
	if n := turn(r, now, 5, "a"); n != 0 {
		t.Errorf("%d encoded for nobody", n)
	}
	a := asker{r, Asked{Tenant: "a"}}
	if news := a.ask(now); news.Life == 0 || len(news.Facts) != 0 {
		t.Errorf("at first %+v", news)
	}
	if n := turn(r, now, 2, "a", "b"); n != 2 {
		t.Errorf("%d encoded", n)
	}
	if news := a.ask(now + 10); news.text() != `"a 0" "a 1"` || news.Next != 2 {
		t.Errorf("%s, next %d", news.text(), news.Next)
	}
	if news := a.ask(now + 20); news.text() != "" {
		t.Errorf("twice: %s", news.text())
	}
	life := a.at.Life
	if n := turn(r, now+20+lease+1, 2, "a"); n != 0 || len(r.ring) != 0 {
		t.Errorf("%d encoded, %d kept after the lease", n, len(r.ring))
	}
	if news := a.ask(now + 30 + lease); news.Life == life || news.text() != "" {
		t.Errorf("a life that has ended goes on: %+v", news)
	}
}

// A fact of a turn that is aborted, or has not committed, is never shown.
func TestOnlyCommitted(t *testing.T) {
	r := NewRecent()
	a := asker{r, Asked{Tenant: "a"}}
	a.ask(now)
	aborted := r.Begin(now)
	if !aborted.Wants("a") {
		t.Fatal("not wanted")
	}
	aborted.Keep("a", []byte(`"never"`))
	turn(r, now, 1, "a")
	if news := a.ask(now); news.text() != `"a 0"` || news.Next != 1 {
		t.Errorf("%s, next %d", news.text(), news.Next)
	}
}

// Beyond PerSecond facts are counted alone, for each tenant by itself; the next second has room.
func TestPerSecond(t *testing.T) {
	r := NewRecent()
	a, b := asker{r, Asked{Tenant: "a"}}, asker{r, Asked{Tenant: "b"}}
	a.ask(now)
	b.ask(now)
	if n := turn(r, now, 50, "a") + turn(r, now+1, 50, "a"); n != PerSecond {
		t.Errorf("%d encoded", n)
	}
	turn(r, now+2, 1, "b")
	if news := a.ask(now + 3); len(news.Facts) != PerSecond || news.Next != 100 {
		t.Errorf("%d facts, next %d", len(news.Facts), news.Next)
	}
	if news := b.ask(now + 3); news.text() != `"b 0"` {
		t.Errorf("b has %s", news.text())
	}
	turn(r, now+1000, 1, "a")
	if news := a.ask(now + 1000); news.text() != `"a 0"` || news.Next != 101 {
		t.Errorf("in the next second %s, next %d", news.text(), news.Next)
	}
}

// However many tenants are asked for, and whatever they do, memory is bounded, and whoever lost
// something can count it.
func TestBounds(t *testing.T) {
	r := NewRecent()
	var names []string
	for i := range mostTenants + 1 {
		names = append(names, fmt.Sprint("t", i))
		asked := asker{r, Asked{Tenant: names[i]}}
		if news := asked.ask(now); (news.Life == 0) != (i == mostTenants) {
			t.Fatalf("tenant %d: %+v", i, news)
		}
	}
	turn(r, now, 3, names...)
	if len(r.ring) > mostFacts {
		t.Errorf("%d facts are kept", len(r.ring))
	}
	of := r.tenants["t0"]
	if news := r.News(now, []Asked{{"t0", of.life, 0}})[0]; news.Next != 3 || len(news.Facts) >= 3 {
		t.Errorf("t0: next %d, %d facts", news.Next, len(news.Facts))
	}
	big := r.Begin(now + 1000)
	for range 3 {
		if big.Wants("t1") {
			big.Keep("t1", make([]byte, mostBytes/2))
		}
	}
	if r.Commit(now, big); r.bytes > mostBytes {
		t.Errorf("%d bytes are kept", r.bytes)
	}
}

// What a fact costs an engine, without its encoding: nobody watches, others are watched, its
// tenant is watched and has had its facts of this second.
func BenchmarkWants(b *testing.B) {
	for _, c := range []struct{ name, watched string }{{"nobody", ""}, {"others", "b"}, {"this", "a"}} {
		b.Run(c.name, func(b *testing.B) {
			r := NewRecent()
			if c.watched != "" {
				r.News(now, []Asked{{Tenant: c.watched}})
			}
			t := r.Begin(now)
			for range PerSecond {
				if t.Wants("a") {
					t.Keep("a", []byte("{}"))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if t.Wants("a") {
					b.Fatal("one more")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/fact")
		})
	}
}
