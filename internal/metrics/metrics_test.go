package metrics

import (
	"slices"
	"testing"
)

// A counter whose labels are known counts from 0, so that its first event is
// an increase.
func TestKnownLabelsBeginAtZero(t *testing.T) {
	for name, want := range map[string][]string{
		"waterclock_transaction_aborts_total": {"closed", "fenced", "fetch", "other", "produce"},
		"waterclock_quota_rejected_total":     {"max_pending", "rate"},
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
