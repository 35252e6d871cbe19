package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A counter whose labels are known counts from 0, so that its first event is
// an increase.
func TestKnownLabelsBeginAtZero(t *testing.T) {
	for name, want := range map[string][]string{
		"waterclock_transaction_aborts_total": {"closed", "fenced", "fetch", "other", "produce"},
		"waterclock_quota_rejected_total":     {"max_pending", "rate", "reads"},
		"waterclock_misfires_total":           {"fire_all", "fire_once", "skip"},
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
		"lost_records_total": 40,
	}
	if !maps.Equal(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
}

// However many codes receipts bring, the series are bounded.
func TestDeadLetterCodesAreBounded(t *testing.T) {
	m := New()
	for i := range 10 * maxCodes {
		m.DeadLettered("push", fmt.Sprint("code ", i))
		m.DeadLettered("push", strings.Repeat("x", maxCodeBytes+i))
	}
	m.DeadLettered("push", "code 0")
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "waterclock_dead_letters_total" {
			continue
		}
		total := 0.0
		for _, s := range f.Metric {
			total += s.Counter.GetValue()
		}
		if len(f.Metric) != maxCodes+1 || total != 20*maxCodes+1 {
			t.Errorf("%d series that count %v, want %d and %d", len(f.Metric), total, maxCodes+1, 20*maxCodes+1)
		}
		return
	}
	t.Error("there is no waterclock_dead_letters_total")
}
