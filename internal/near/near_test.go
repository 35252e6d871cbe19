package near

import "testing"

func TestName(t *testing.T) {
	known := []string{"fire_at", "timezone", "recurrence", "--partitions", "MO", "SU", "delay"}
	for _, row := range []struct{ word, want string }{
		{"fire-at", "fire_at"},
		{"FIREAT", "fire_at"},
		{"timezon", "timezone"},
		{"time", "timezone"},
		{"recurence", "recurrence"},
		{"--partition", "--partitions"},
		{"MON", "MO"},
		{"dealy", "delay"},
		{"t", "timezone"},
		{"", ""},
		{"x", ""},
		{"entirely else", ""},
		{"XY", ""},
	} {
		if got, ok := Name(row.word, known); got != row.want || ok != (row.want != "") {
			t.Errorf("%q: %q, want %q", row.word, got, row.want)
		}
	}
	if got := Hint("delai", known); got != "; did you mean delay?" {
		t.Error(got)
	}
	if got := Hint("payload", known); got != "" {
		t.Error(got)
	}
}

func TestSorted(t *testing.T) {
	known := []string{"register", "cancel", "redrive"}
	if got := Sorted("CANCLE", known); got[0] != "cancel" || len(got) != 3 || known[0] != "register" {
		t.Error(got, known)
	}
}
