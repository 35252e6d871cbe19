package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/sinks/webhook"
)

// A counter whose labels are known counts from 0, so that its first event is
// an increase.
func TestKnownLabelsBeginAtZero(t *testing.T) {
	for name, want := range map[string][]string{
		"waterclock_transaction_aborts_total": {"closed", "fenced", "fetch", "other", "produce"},
		"waterclock_quota_rejected_total":     {"behind", "max_pending", "rate", "reads"},
		"waterclock_misfires_total":           {"fire_all", "fire_once", "skip"},
		"waterclock_audit_attempts_total":     {"dropped", "recorded"},
	} {
		if got := zeros(t, New(), name); !slices.Equal(got, want) {
			t.Errorf("%s begins with %v, want %v", name, got, want)
		}
	}
}

// zeros are the values of a metric's only label that count 0.
func zeros(t *testing.T, m *Metrics, name string) (labels []string) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.Metric {
			if s.Counter.GetValue() == 0 && len(s.Label) == 1 {
				labels = append(labels, s.Label[0].GetValue())
			}
		}
	}
	slices.Sort(labels)
	return labels
}

// What a projector tells is what is exported; a partition that goes on stops no
// longer.
func TestHistory(t *testing.T) {
	m := New()
	h := m.History()
	h.Lag(3, 7)
	h.Stopped(3, errors.New("no table"))
	h.Stopped(4, errors.New("no table"))
	h.Stopped(4, nil)
	h.Skipped(3, 1, nil)
	h.Lost(3, 40)
	l := m.Letters()
	l.Lag(3, 2)
	l.Stopped(3, errors.New("no table"))
	l.Stopped(3, nil)
	m.ContentLag("due.push", 5)
	all, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		for _, s := range f.Metric {
			if name, ok := strings.CutPrefix(f.GetName(), "waterclock_history_"); ok {
				for _, l := range s.Label {
					name += " " + l.GetValue()
				}
				got[name] = s.Gauge.GetValue() + s.Counter.GetValue()
			}
		}
	}
	want := map[string]float64{
		"lag_records 3": 7, "stopped 3": 1, "stopped 4": 0, "skipped_total": 1,
		"lost_records_total": 40, "dead_letters_lag_records 3": 2, "dead_letters_stopped 3": 0,
		"content_lag_records due.push": 5,
	}
	if !maps.Equal(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
}

// However many codes receipts bring, the series are those of a set that every
// process has.
func TestDeadLetterCodesAreASet(t *testing.T) {
	m := New()
	for i := range 1000 {
		m.DeadLettered("push", fmt.Sprint("code ", i))
	}
	m.DeadLettered("push", "")
	m.DeadLettered("push", "receipt_timeout")
	m.DeadLettered("push", "http_5xx")
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, s := range f.Metric {
			if f.GetName() == "waterclock_dead_letters_total" {
				got[s.Label[1].GetValue()] = s.Counter.GetValue()
			}
		}
	}
	if want := (map[string]float64{"other": 1001, "receipt_timeout": 1, "http_5xx": 1}); !maps.Equal(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
}

// Every code that our worker of webhooks writes is a label of its own, and so is each
// of the worker kit.
func TestCodesOfWorkersAreKnown(t *testing.T) {
	for _, code := range append([]string{worker.CodeTimeout, worker.CodePanic, worker.CodeError, worker.CodeExpired},
		webhook.Codes...) {
		if got := labelOf(code); got != code {
			t.Errorf("code %s is labelled %s", code, got)
		}
	}
	if got := labelOf("what a tenant chose"); got != otherCode {
		t.Errorf("%s", got)
	}
}

// What the gateway counts of erasures and moves is what is exported.
func TestUserWork(t *testing.T) {
	m := New()
	m.Erasures(7, 90*time.Second)
	m.Moves(3)
	m.ErasureFailed()
	m.ErasureFailed()
	m.MoveFailed()
	all, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range all {
		name := strings.TrimPrefix(f.GetName(), "waterclock_")
		if strings.HasPrefix(name, "erasure") || strings.HasPrefix(name, "zone_move") {
			got[name] = f.Metric[0].Gauge.GetValue() + f.Metric[0].Counter.GetValue()
		}
	}
	if want := (map[string]float64{
		"erasures_pending": 7, "erasures_oldest_seconds": 90, "erasure_failures_total": 2,
		"zone_moves_pending": 3, "zone_move_failures_total": 1,
	}); !maps.Equal(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
}

// A partition that has an owner and does not fire is missing among those that an alert counts.
func TestPartitionsThatFire(t *testing.T) {
	m := New()
	m.Watch(func() []pipeline.Status {
		return []pipeline.Status{{Partition: 3, Ready: true, Pending: 7}, {Partition: 4}}
	}, func() []engine.StandbyStatus { return nil })
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "waterclock_pending_triggers" {
			continue
		}
		if len(f.Metric) != 1 || f.Metric[0].Gauge.GetValue() != 7 || f.Metric[0].Label[0].GetValue() != "3" {
			t.Errorf("%v", f.Metric)
		}
		return
	}
	t.Error("no partition is ready")
}
