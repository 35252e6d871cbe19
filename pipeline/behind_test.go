package pipeline

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// A tenant is behind while its oldest timer is late by more than the bound and gets no less so. A backlog
// that shrinks is not, nor what another tenant has.
func TestBehind(t *testing.T) {
	const s = trigger.Instant(1000)
	type check struct {
		at   trigger.Instant
		due  map[string]trigger.Instant // of the oldest timers
		want map[string]time.Duration
	}
	for _, c := range []struct {
		name   string
		checks []check
	}{
		{"grows", []check{
			{100 * s, map[string]trigger.Instant{"a": 80 * s, "b": 95 * s}, nil},
			{105 * s, map[string]trigger.Instant{"a": 84 * s, "b": 95 * s}, map[string]time.Duration{
				"a": 21 * time.Second,
			}},
			{110 * s, map[string]trigger.Instant{"a": 90 * s, "b": 95 * s}, nil},
			{115 * s, map[string]trigger.Instant{"a": 95 * s, "b": 95 * s}, map[string]time.Duration{
				"a": 20 * time.Second, "b": 20 * time.Second,
			}},
			{120 * s, nil, nil},
		}},
		{"shrinks, as after an outage", []check{
			{4000 * s, map[string]trigger.Instant{"a": 100 * s}, nil},
			{4005 * s, map[string]trigger.Instant{"a": 110 * s}, nil},
			{4010 * s, map[string]trigger.Instant{"a": 120 * s}, nil},
		}},
		{"within the bound", []check{
			{100 * s, map[string]trigger.Instant{"a": 91 * s}, nil},
			{105 * s, map[string]trigger.Instant{"a": 95 * s}, nil},
		}},
		{"checks too soon", []check{
			{100 * s, map[string]trigger.Instant{"a": 80 * s}, nil},
			{104 * s, map[string]trigger.Instant{"a": 80 * s}, nil},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := behind{after: 10 * time.Second}
			for _, l := range c.checks {
				b.check(l.at, func(f func(string, trigger.Instant)) {
					for tenant, due := range l.due {
						f(tenant, due)
						f(tenant, due+1) // of another priority
					}
				})
				for _, tenant := range []string{"a", "b"} {
					if got := b.of(tenant, l.at); got != l.want[tenant] {
						t.Errorf("at %v: %s is %v behind; want %v", l.at/s, tenant, got, l.want[tenant])
					}
				}
			}
		})
	}
	t.Run("a partition without turns says nothing", func(t *testing.T) {
		b := behind{after: time.Second}
		all := func(f func(string, trigger.Instant)) { f("a", 0) }
		b.check(100*s, all)
		b.check(105*s, all)
		if b.of("a", 119*s) == 0 || b.of("a", 120*s) != 0 {
			t.Error("after 14 s", b.of("a", 119*s), "and after 15 s", b.of("a", 120*s))
		}
	})
	t.Run("without a bound nobody is", func(t *testing.T) {
		b := behind{after: -1}
		for at := 100 * s; at < 200*s; at += 5 * s {
			if b.check(at, func(f func(string, trigger.Instant)) { f("a", 0) }); b.of("a", at) != 0 {
				t.Fatal("behind at", at)
			}
		}
	})
}
