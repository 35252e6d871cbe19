package main

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"hold-8c4", "hold-8c5", "pills", "tea"}
	for _, row := range []struct{ name, want string }{
		{"hold-8c", "hold-8c4"}, {"hold-8v5", "hold-8c5"}, {"pill", "pills"}, {"p", "pills"}, {"teaa", "tea"}, {"coffee", ""}, {"", "hold-8c4"},
	} {
		got := ""
		if near := nearest(row.name, known); len(near) > 0 {
			got = near[0]
		}
		if got != row.want {
			t.Errorf("%q is near %q, want %q", row.name, got, row.want)
		}
	}
}
