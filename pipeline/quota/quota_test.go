package quota_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/trigger"
)

const noon = trigger.Instant(1_772_452_800_000) // 2026-03-02T12:00:00Z, where a window begins

func open(l *quota.Ledger, n int) (shares []*quota.Share) {
	for range n {
		s := l.Share()
		s.Join()
		shares = append(shares, s)
	}
	return shares
}

func limit(rate float64, pending int64) func(string) quota.Limit {
	return func(string) quota.Limit { return quota.Limit{Rate: rate, MaxPending: pending} }
}

// TestManyPartitions: the rate is the tenant's, not each partition's.
func TestManyPartitions(t *testing.T) {
	for _, c := range []struct {
		name       string
		rate       float64
		partitions int
		owned      []int // by process
		seconds    int
		most       int
	}{
		{"one process", 10, 1000, []int{1000}, 60, 600},
		{"three processes", 10, 1000, []int{334, 333, 333}, 60, 600},
		{"few partitions", 10, 4, []int{4}, 60, 600},
		{"slower than a window", 0.01, 1000, []int{1000}, 1000, 10},
		{"a fraction in a window", 1.25, 1, []int{1}, 80, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			var admitted int
			for _, owned := range c.owned {
				shares := open(quota.New(limit(c.rate, 0), int32(c.partitions)), owned)
				for ms := 0; ms < c.seconds*1000; ms += 7 {
					if limit, _ := shares[ms%owned].Admit("t", noon+trigger.Instant(ms), false); limit == "" {
						admitted++
					}
				}
			}
			if over := admitted - c.most; over > len(c.owned) || over < -len(c.owned) {
				t.Errorf("%d of at most %d were admitted", admitted, c.most)
			}
		})
	}
}

// TestBacklog: partitions that are read one after the other admit what they would have
// admitted at the time.
func TestBacklog(t *testing.T) {
	const partitions = 8
	admitted := func(order func(i, n int) int) (n int) {
		shares := open(quota.New(limit(100, 0), partitions), partitions)
		const each = 20_000
		for i := range partitions * each {
			at := order(i, each)
			if limit, _ := shares[at/each].Admit("t", noon+trigger.Instant(at%each*50), false); limit == "" {
				n++
			}
		}
		return n
	}
	together := admitted(func(i, each int) int { return i%partitions*each + i/partitions })
	oneByOne := admitted(func(i, _ int) int { return i })
	if together != oneByOne || together != 100*1000 {
		t.Errorf("%d together, %d one after the other, want 100,000", together, oneByOne)
	}
}

// TestPending: the number is the process's, and changes with what it owns.
func TestPending(t *testing.T) {
	l := quota.New(limit(0, 10), 2)
	shares := open(l, 2)
	a, b := shares[0], shares[1]
	for range 10 { // all on one partition
		if limit, _ := a.Admit("t", noon, false); limit != "" {
			t.Fatal("refused below the limit")
		}
		a.Moved("t", 0, trigger.Pending)
	}
	if limit, err := b.Admit("t", noon, false); limit != quota.MaxPending || err.Code != trigger.CodeQuotaExceeded {
		t.Errorf("at the limit: %q, %v", limit, err)
	}
	if limit, _ := b.Admit("t", noon, true); limit != "" {
		t.Errorf("a replacement: %q", limit)
	}
	a.Moved("t", trigger.Pending, trigger.Cancelled)
	if limit, _ := b.Admit("t", noon, false); limit != "" {
		t.Errorf("below the limit: %q", limit)
	}
	a.Leave()
	a.Leave() // as after an opening that failed
	for range 5 {
		if limit, _ := b.Admit("t", noon, false); limit != "" {
			t.Fatal("refused below the half of one who owns half")
		}
		b.Moved("t", trigger.Fired, trigger.Pending)
	}
	if limit, _ := b.Admit("t", noon, false); limit != quota.MaxPending {
		t.Errorf("at the half of one who owns half: %q", limit)
	}
	back := l.Share() // it is opened anew, with what it has
	for range 9 {
		back.Moved("t", 0, trigger.Pending)
	}
	if limit, _ := b.Admit("t", noon, false); limit != quota.MaxPending {
		t.Errorf("before the other is open: %q", limit)
	}
	back.Join()
	if limit, _ := b.Admit("t", noon, false); limit != quota.MaxPending {
		t.Errorf("14 of 10: %q", limit)
	}
}

// TestLastRegister: two partitions that decide at once do not both take the last one. A register
// that is refused for another reason gives it back.
func TestLastRegister(t *testing.T) {
	l := quota.New(limit(0, 1), 2)
	shares := open(l, 2)
	a, b := shares[0], shares[1]
	if limit, _ := a.Admit("t", noon, false); limit != "" {
		t.Fatalf("the first: %q", limit)
	}
	if limit, _ := b.Admit("t", noon, false); limit != quota.MaxPending {
		t.Errorf("while the first is decided: %q", limit)
	}
	a.Committed() // a did not register it
	if limit, _ := b.Admit("t", noon, false); limit != "" {
		t.Errorf("when the first was refused: %q", limit)
	}
	b.Moved("t", 0, trigger.Pending)
	b.Committed()
	if limit, _ := a.Admit("t", noon, false); limit != quota.MaxPending {
		t.Errorf("when it is taken: %q", limit)
	}
	b.Moved("t", trigger.Pending, trigger.Fired)
	if limit, _ := a.Admit("t", noon, false); limit != "" {
		t.Errorf("when it is free again: %q", limit)
	}
	a.Leave()
	if limit, _ := b.Admit("t", noon, false); limit != "" {
		t.Errorf("after the other partition closed: %q", limit)
	}
}

// TestTurnThatFails: what a turn admitted that did not commit is not counted twice.
func TestTurnThatFails(t *testing.T) {
	l := quota.New(limit(1, 0), 1)
	for range 20 {
		s := l.Share()
		s.Join()
		for i := range 10 {
			if limit, _ := s.Admit("t", noon, false); limit != "" {
				t.Fatalf("register %d was refused", i)
			}
		}
		s.Leave()
	}
	s := l.Share()
	s.Join()
	for range 10 {
		s.Admit("t", noon, false)
	}
	s.Committed()
	s.Leave()
	s = l.Share()
	s.Join()
	if limit, _ := s.Admit("t", noon, false); limit != quota.Rate {
		t.Errorf("what is committed was forgotten: %q", limit)
	}
}

// TestUnbounded: who sets no limits pays nothing.
func TestUnbounded(t *testing.T) {
	s := quota.New(nil, 4).Share()
	s.Join()
	s.Moved("t", 0, trigger.Pending)
	if limit, err := s.Admit("t", noon, false); limit != "" || err != nil {
		t.Error(limit, err)
	}
	s.Committed()
	s.Leave()
	bounded := open(quota.New(limit(0, 0), 4), 1)[0]
	if n := testing.AllocsPerRun(100, func() { bounded.Admit("t", noon, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTogether: partitions use the ledger at once, and all is given back.
func TestTogether(t *testing.T) {
	const partitions, each = 16, 2000
	l := quota.New(limit(1e6, 500), partitions)
	shares := open(l, partitions)
	var wg sync.WaitGroup
	for i, s := range shares {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			var mine int
			for range each {
				switch tenant := fmt.Sprint("t", r.IntN(3)); {
				case r.IntN(2) == 0:
					if limit, _ := s.Admit(tenant, noon, false); limit == "" {
						s.Moved("t", 0, trigger.Pending)
						mine++
					}
				case mine > 0:
					s.Moved("t", trigger.Pending, trigger.Fired)
					mine--
				}
				s.Committed()
			}
			s.Leave()
		})
	}
	wg.Wait()
	last := open(l, partitions)[0]
	for i := range 500 {
		if limit, _ := last.Admit("t", noon+trigger.Instant(time.Minute.Milliseconds()), false); limit != "" {
			t.Fatalf("after %d: %s", i, limit)
		}
		last.Moved("t", 0, trigger.Pending)
	}
}
