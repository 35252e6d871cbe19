package calendar

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"
)

// 2023c has no America/Coyhaique, which 2025c has: going back with it keeps
// that zone's rules and takes all others from 2023c.
func TestCarryOver(t *testing.T) {
	blob, err := os.ReadFile("testdata/zoneinfo-2023c.zip")
	if err != nil {
		t.Fatal(err)
	}
	whole, names, err := CarryOver(blob, Embedded())
	if err != nil || !slices.Equal(names, []string{"America/Coyhaique"}) {
		t.Fatalf("carried over %v, %v", names, err)
	}
	if second, _, err := CarryOver(blob, Embedded()); err != nil || !bytes.Equal(second, whole) {
		t.Errorf("the same releases give other bytes, %v", err)
	}
	got := load(t, whole, "got")
	from, to := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(),
		time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, d := range Diff(load(t, blob, "2023c"), got, from, to) {
		if d.Zone != "America/Coyhaique" || !d.Added {
			t.Errorf("unlike 2023c: %+v", d)
		}
	}
	for _, d := range Diff(Embedded(), got, from, to) {
		if d.Zone == "America/Coyhaique" || d.Removed {
			t.Errorf("unlike the release before: %+v", d)
		}
	}
	if same, names, err := CarryOver(whole, Embedded()); err != nil || names != nil || !bytes.Equal(same, whole) {
		t.Errorf("a release that lacks nothing is changed by %v, %v", names, err)
	}
	if _, _, err := CarryOver([]byte("no zip"), Embedded()); err == nil {
		t.Error("what is no zip is taken")
	}
}

func load(t *testing.T, blob []byte, label string) *Zones {
	t.Helper()
	z, err := LoadZones(blob, label)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
