package sinktest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// letter makes the next dead letter of a trigger, failed at an instant.
func (w *world) letter(key string, failed time.Time, edit ...func(*topics.Letter)) sinks.EventRecord {
	l := topics.Letter{
		Tenant: w.tenant, Trigger: key, DueID: key + "@2026-11-20T14:00:00.000Z#0", Attempt: 6,
		FailedAt: trigger.At(failed), Partition: partition, Offset: w.offset, Channel: "webhook", Code: "http_500",
		Detail: "the endpoint answered 500", Endpoint: "https://example.com",
		ScheduledAt: trigger.At(failed.Add(-time.Hour)),
	}
	w.offset++
	for _, f := range edit {
		f(&l)
	}
	return sinks.EventRecord{
		Partition: l.Partition, Offset: l.Offset, Letter: &l,
		Event: topics.Event{Tenant: l.Tenant, Trigger: l.Trigger, EventUS: int64(l.FailedAt) * 1000},
	}
}

func (w *world) applyLetters(batch ...sinks.EventRecord) {
	w.t.Helper()
	if err := w.h.ApplyLetters(context.Background(), batch); err != nil {
		w.t.Fatalf("apply %d letters: %v", len(batch), err)
	}
}

// letters reads all results of a query for this test's tenant, page by page.
func (w *world) letters(q topics.LetterQuery) (all []topics.Letter) {
	w.t.Helper()
	q.Tenant = w.tenant
	return w.everyLetter(q)
}

func (w *world) everyLetter(q topics.LetterQuery) (all []topics.Letter) {
	w.t.Helper()
	for range 10_000 {
		page, err := w.h.Letters(context.Background(), q)
		if err != nil {
			w.t.Fatalf("letters: %v", err)
		}
		if len(page.Items) > sinks.PageSize(q.Limit) {
			w.t.Fatalf("a page of %d letters, limit %d", len(page.Items), q.Limit)
		}
		all = append(all, page.Items...)
		if q.After = page.Next; q.After.IsZero() {
			return all
		}
	}
	w.t.Fatal("pages without end")
	return nil
}

func offsetsOf(list []topics.Letter) (all []int64) {
	for i := range list {
		all = append(all, list[i].Offset)
	}
	return all
}

// testLetters checks that all letters are listed by failure time, in both orders, with any page
// size, and across partitions, minutes and months.
func testLetters(t *testing.T, w *world) {
	month := time.Date(w.start.Year(), w.start.Month(), 1, 0, 0, 0, 0, time.UTC)
	var want []topics.Letter
	var batch []sinks.EventRecord
	for i, at := range []time.Time{
		month.Add(-40 * time.Hour), month.Add(-time.Millisecond), month, month,
		w.start, w.start.Add(time.Millisecond), w.start.Add(59 * time.Second), w.start.Add(time.Hour),
		w.start.Add(time.Hour), w.start.Add(time.Hour), w.start.Add(20 * time.Hour),
	} {
		r := w.letter(fmt.Sprintf("%s/k%d", w.tenant, i), at, func(l *topics.Letter) {
			l.Partition = int32(i % 3)
			if i%2 == 0 {
				l.ExpiresAt, l.Cut = l.ScheduledAt+5000, true
			}
		})
		batch = append(batch, r)
		want = append(want, *r.Letter)
	}
	slices.SortFunc(want, func(a, b topics.Letter) int { return a.Cursor().Compare(b.Cursor()) })
	w.applyLetters(batch...)
	w.applyLetters(batch[3:7]...) // once more
	for _, limit := range []int{1, 2, 3, 100} {
		if got := w.letters(topics.LetterQuery{Limit: limit}); !reflect.DeepEqual(got, want) {
			t.Fatalf("limit %d:\n got %+v\nwant %+v", limit, got, want)
		}
		newest := w.letters(topics.LetterQuery{Limit: limit, Newest: true})
		slices.Reverse(newest)
		if !reflect.DeepEqual(newest, want) {
			t.Fatalf("limit %d, newest first: %v, want %v", limit, offsetsOf(newest), offsetsOf(want))
		}
	}
	for i := range want {
		one := w.letters(topics.LetterQuery{Trigger: want[i].Trigger})
		if len(one) != 1 || !reflect.DeepEqual(one[0], want[i]) {
			t.Fatalf("of %s: %+v", want[i].Trigger, one)
		}
	}
	from, to := want[2].FailedAt, want[6].FailedAt
	if got := w.letters(topics.LetterQuery{From: from, To: to, Limit: 2}); !reflect.DeepEqual(got, want[2:6]) {
		t.Errorf("from %s to %s: %v, want %v", from, to, offsetsOf(got), offsetsOf(want[2:6]))
	}
	newest := w.letters(topics.LetterQuery{From: from, To: to, Newest: true, Limit: 2})
	slices.Reverse(newest)
	if !reflect.DeepEqual(newest, want[2:6]) {
		t.Errorf("newest first from %s to %s: %v, want %v", from, to, offsetsOf(newest), offsetsOf(want[2:6]))
	}
}

// testLetterFilters checks each filter alone, and pages that a filter makes short.
func testLetterFilters(t *testing.T, w *world) {
	var batch []sinks.EventRecord
	for i := range 60 {
		batch = append(batch, w.letter(fmt.Sprintf("%s/k%d", w.tenant, i), w.start.Add(time.Duration(i)*time.Second),
			func(l *topics.Letter) {
				l.Channel = []string{"push", "webhook"}[i%2]
				l.Code = []string{"http_500", "receipt_timeout", "http_404"}[i%3]
				l.Endpoint = []string{"", "https://a.example", "https://b.example", ""}[i%4]
			}))
	}
	w.applyLetters(batch...)
	for _, c := range []struct {
		q    topics.LetterQuery
		want int
	}{
		{topics.LetterQuery{Channel: "push"}, 30},
		{topics.LetterQuery{Code: "receipt_timeout"}, 20},
		{topics.LetterQuery{Endpoint: "https://a.example"}, 15},
		{topics.LetterQuery{Channel: "webhook", Code: "http_404", Endpoint: "https://a.example"}, 5},
		{topics.LetterQuery{Code: "no such"}, 0},
		{topics.LetterQuery{Status: topics.LetterRedriven}, 0},
		{topics.LetterQuery{Status: topics.LetterAny}, 60},
	} {
		for _, limit := range []int{7, 1000} {
			c.q.Limit = limit
			if got := w.letters(c.q); len(got) != c.want {
				t.Errorf("%+v: %d letters, want %d", c.q, len(got), c.want)
			}
		}
	}
}

// testLetterTenants checks that a list of all tenants goes tenant by tenant, and that a tenant's
// list has only its own letters.
func testLetterTenants(t *testing.T, w *world) {
	names := []string{w.tenant + "-a", w.tenant + "-b", w.tenant + "-c"}
	for i := range 9 {
		name := names[i%3]
		w.applyLetters(w.letter(name+"/k", w.start.Add(time.Duration(i)*time.Second), func(l *topics.Letter) {
			l.Tenant = name
		}))
	}
	for i, name := range names {
		list := w.everyLetter(topics.LetterQuery{Tenant: name, Limit: 2})
		if got := offsetsOf(list); !slices.Equal(got, []int64{int64(i), int64(i + 3), int64(i + 6)}) {
			t.Errorf("of %s: %v", name, got)
		}
		if list := w.everyLetter(topics.LetterQuery{Tenant: name, Trigger: names[(i+1)%3] + "/k"}); len(list) != 0 {
			t.Errorf("%s sees %d letters of another tenant's trigger", name, len(list))
		}
	}
	for _, newest := range []bool{false, true} {
		var got []int64
		for _, l := range w.everyLetter(topics.LetterQuery{Limit: 2, Newest: newest}) {
			if slices.Contains(names, l.Tenant) { // other tenants belong to other tests
				got = append(got, l.Offset)
			}
		}
		want := []int64{0, 3, 6, 1, 4, 7, 2, 5, 8}
		if newest {
			want = []int64{6, 3, 0, 7, 4, 1, 8, 5, 2}
		}
		if !slices.Equal(got, want) {
			t.Errorf("all tenants, newest %v: %v, want %v", newest, got, want)
		}
	}
}

// testLetterEnds checks that ends count in whatever order the two topics are read, and however
// often.
func testLetterEnds(t *testing.T, w *world) {
	step := 0
	of := func(attempt int, reason string) func(*sinks.EventRecord) {
		return func(r *sinks.EventRecord) {
			r.Occurrence, r.Step, r.Attempt, r.Reason = "2026-11-20T14:00:00.000Z", &step, attempt, reason
		}
	}
	other := func(r *sinks.EventRecord) { r.Occurrence = "2026-11-21T14:00:00.000Z" }
	cases := []struct {
		name   string
		events func(key string) []sinks.EventRecord
		want   topics.LetterStatus
	}{
		{"nothing", func(string) []sinks.EventRecord { return nil }, topics.LetterOpen},
		{"redriven", func(k string) []sinks.EventRecord {
			return []sinks.EventRecord{w.event(k, trigger.Redriven, trigger.InFlight, of(7, ""))}
		}, topics.LetterRedriven},
		{"an earlier letter redriven", func(k string) []sinks.EventRecord {
			return []sinks.EventRecord{w.event(k, trigger.Redriven, trigger.InFlight, of(3, ""))}
		}, topics.LetterOpen},
		{"another occurrence redriven", func(k string) []sinks.EventRecord {
			return []sinks.EventRecord{w.event(k, trigger.Redriven, trigger.InFlight, of(7, ""), other)}
		}, topics.LetterOpen},
		{"redriven and delivered", func(k string) []sinks.EventRecord {
			return []sinks.EventRecord{
				w.event(k, trigger.Redriven, trigger.InFlight, of(7, "")),
				w.event(k, trigger.DeliveryDelivered, trigger.Fired, of(7, "")),
			}
		}, topics.LetterResolved},
		{"delivered late", func(k string) []sinks.EventRecord {
			return []sinks.EventRecord{w.event(k, trigger.DeliveryDelivered, trigger.Failed, of(1, "late"))}
		}, topics.LetterResolved},
		{"failed late", func(k string) []sinks.EventRecord {
			return []sinks.EventRecord{w.event(k, trigger.DeliveryFailed, trigger.Failed, of(1, "late"))}
		}, topics.LetterOpen},
		{"erased", func(k string) []sinks.EventRecord {
			return []sinks.EventRecord{
				w.event(k, trigger.Redriven, trigger.InFlight, of(7, "")),
				w.event(k, trigger.ErasedFact, trigger.Erased),
			}
		}, topics.LetterErased},
	}
	orders := []string{"letter first", "events first", "events, letter, events again"}
	for i, c := range cases {
		for j, order := range orders {
			key := fmt.Sprintf("%s/e%d-%d", w.tenant, i, j)
			letter := w.letter(key, w.start.Add(-time.Minute))
			events := c.events(key)
			switch order {
			case "letter first":
				w.applyLetters(letter)
				w.apply(events...)
			case "events first":
				w.apply(events...)
				w.applyLetters(letter)
			default:
				w.apply(events...)
				w.applyLetters(letter)
				for k := len(events) - 1; k >= 0; k-- {
					w.apply(events[k])
				}
				w.applyLetters(letter)
			}
			w.requireStatus(c.name+", "+order, key, c.want)
		}
	}
}

// requireStatus checks that a trigger's only letter is listed under exactly one status.
func (w *world) requireStatus(name, key string, want topics.LetterStatus) {
	w.t.Helper()
	for _, status := range []topics.LetterStatus{topics.LetterOpen, topics.LetterRedriven, topics.LetterResolved} {
		list := w.letters(topics.LetterQuery{Trigger: key, Status: status})
		if (len(list) == 1) != (status == want) {
			w.t.Errorf("%s: %d letters are %s, and it is to be %s", name, len(list), status, want)
		}
	}
	all := w.letters(topics.LetterQuery{Trigger: key, Status: topics.LetterAny})
	switch {
	case want == topics.LetterErased && len(all) > 0:
		w.t.Errorf("%s: listed after its erasure: %+v", name, all)
	case want != topics.LetterErased && (len(all) != 1 || all[0].Status != want || all[0].Detail == ""):
		w.t.Errorf("%s: %+v, want one that is %s", name, all, want)
	}
	// No list shows an erased letter, except a query for that status.
	if want == topics.LetterErased {
		for _, l := range w.letters(topics.LetterQuery{Trigger: key, Status: topics.LetterErased}) {
			if l.Detail != "" {
				w.t.Errorf("%s: the detail is still there: %q", name, l.Detail)
			}
		}
	}
}

// testLettersErasedAhead checks that a letter is blank although the brokers' clock, which stamped
// its failure, is ahead of the engine's, which stamped the erase.
func testLettersErasedAhead(t *testing.T, w *world) {
	for _, order := range []string{"letter first", "erase first"} {
		key := w.tenant + "/" + order[:1]
		erased := w.event(key, trigger.ErasedFact, trigger.Erased)
		letter := w.letter(key, time.UnixMicro(erased.EventUS).Add(500*time.Millisecond))
		if order == "letter first" {
			w.applyLetters(letter)
		}
		w.apply(erased)
		w.applyLetters(letter)
		w.requireStatus(order, key, topics.LetterErased)
		all := w.letters(topics.LetterQuery{Trigger: key, Status: topics.LetterErased})
		if len(all) != 1 {
			t.Errorf("%s: %d erased letters", order, len(all))
		}
	}
}

// testLettersOfNewLife checks that a trigger that was erased and registered anew has its own
// letters.
func testLettersOfNewLife(t *testing.T, w *world) {
	key := w.tenant + "/k"
	w.applyLetters(w.letter(key, w.start))
	erased := w.event(key, trigger.ErasedFact, trigger.Erased)
	w.apply(erased)
	later := w.letter(key, time.UnixMicro(erased.EventUS).Add(time.Minute))
	w.applyLetters(later)
	if got := w.letters(topics.LetterQuery{}); len(got) != 1 || !reflect.DeepEqual(got[0], *later.Letter) {
		t.Errorf("after an erasure and a new life: %+v", got)
	}
}

// testLettersEnd checks that letters expire with the retention, also those that come late.
func testLettersEnd(t *testing.T, w *world) {
	w.reopen(time.Hour)
	now := time.Now()
	w.applyLetters(w.letter(w.tenant+"/old", now.Add(-time.Hour-time.Minute)),
		w.letter(w.tenant+"/new", now.Add(-time.Minute)))
	got := w.letters(topics.LetterQuery{})
	if len(got) != 1 || got[0].Trigger != w.tenant+"/new" {
		t.Errorf("with a retention of an hour: %+v", got)
	}
}

// testLetterProgress checks that topic dead-letter has its own positions.
func testLetterProgress(t *testing.T, w *world) {
	ctx := context.Background()
	before, err := w.h.Progress(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.offset = time.Now().UnixNano() // higher than in other tests
	r := w.letter(w.tenant+"/k", w.start.Add(time.Hour), func(l *topics.Letter) { l.Partition = 91 })
	w.applyLetters(r)
	marker := sinks.EventRecord{Partition: 91, Offset: r.Offset + 1, Poison: true}
	w.applyLetters(marker)
	after, err := w.h.Progress(ctx)
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("letters moved the progress of events: %v, %v", after, err)
	}
	got, err := w.h.LetterProgress(ctx)
	if err != nil || got[91].Next < r.Offset+1 {
		t.Errorf("progress of letters: %+v, %v; want %d", got[91], err, r.Offset+1)
	}
}

// testManyLetters has more letters than one page reads, most of them ended. Pages are short and
// have a next one, and no letter is lost.
func testManyLetters(t *testing.T, w *world) {
	step := 0
	var letters, events []sinks.EventRecord
	const n = 1500
	for i := range n {
		key := fmt.Sprintf("%s/k%d", w.tenant, i)
		letters = append(letters, w.letter(key, w.start.Add(time.Duration(i/10)*time.Second),
			func(l *topics.Letter) { l.Partition = int32(i % 16) }))
		if i%100 != 0 {
			events = append(events, w.event(key, trigger.Redriven, trigger.InFlight, func(r *sinks.EventRecord) {
				r.Occurrence, r.Step, r.Attempt = "2026-11-20T14:00:00.000Z", &step, 7
			}))
		}
	}
	w.applyLetters(letters...)
	w.apply(events...)
	if got := w.letters(topics.LetterQuery{Limit: 4}); len(got) != n/100 {
		t.Errorf("%d letters are open, want %d", len(got), n/100)
	}
	if got := w.letters(topics.LetterQuery{Limit: 333, Status: topics.LetterRedriven}); len(got) != n-n/100 {
		t.Errorf("%d letters are redriven, want %d", len(got), n-n/100)
	}
}

// testLettersOfOnePage lists many letters of few triggers as one page. Each has its own end, whatever
// became of its neighbours, and however many letters share an occurrence.
func testLettersOfOnePage(t *testing.T, w *world) {
	step := 0
	var letters, events []sinks.EventRecord
	want := map[int64]topics.LetterStatus{}
	for i := range 48 {
		key := fmt.Sprintf("%s/k%d", w.tenant, i%6) // k5 is erased, k4 has no ends
		attempt := 1 + i/6%4
		occurrence := fmt.Sprintf("2026-11-2%dT14:00:00.000Z", i/24)
		l := w.letter(key, w.start.Add(time.Duration(i)*time.Millisecond), func(l *topics.Letter) {
			l.DueID, l.Attempt = key+"@"+occurrence+"#0", attempt
		})
		letters = append(letters, l)
		if want[l.Offset] = topics.LetterOpen; i%6 < 4 && (i/6)%(2+i%6) == 0 {
			want[l.Offset] = topics.LetterRedriven
			events = append(events, w.event(key, trigger.Redriven, trigger.InFlight, func(r *sinks.EventRecord) {
				r.Occurrence, r.Step, r.Attempt = occurrence, &step, attempt+1
			}))
		}
		if i%6 == 5 {
			want[l.Offset] = topics.LetterErased
		}
	}
	events = append(events, w.event(w.tenant+"/k5", trigger.ErasedFact, trigger.Erased))
	w.applyLetters(letters...)
	w.apply(events...)
	listed := 0
	for _, newest := range []bool{false, true} {
		for _, l := range w.letters(topics.LetterQuery{Limit: 1000, Status: topics.LetterAny, Newest: newest}) {
			if listed++; l.Status != want[l.Offset] {
				t.Errorf("attempt %d of %s is %s, want %s", l.Attempt, l.DueID, l.Status, want[l.Offset])
			}
		}
	}
	if listed != 2*40 {
		t.Errorf("%d letters are listed in two lists, want 80", listed)
	}
}
