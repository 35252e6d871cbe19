package peer

import (
	"fmt"
	"testing"
)

// TestFold: what instances say of themselves adds up, in any order: the owner
// that fires counts, and standbys are kept.
func TestFold(t *testing.T) {
	owner := []PartitionStatus{
		{Partition: 0, Owner: "a", Term: 2, Ready: true},
		{Partition: 1, Standbys: []StandbyStatus{{Node: "a", Warm: true}}},
	}
	other := []PartitionStatus{
		{Partition: 1, Owner: "b", Term: 1, Ready: true},
		{Partition: 0, Standbys: []StandbyStatus{{Node: "b", Lag: 7}}},
	}
	late := []PartitionStatus{{Partition: 0, Owner: "c", Term: 1}, {Partition: 9, Owner: "c"}}
	want := "[{a 2 [{b 7 false}]} {b 1 [{a 0 true}]}]"
	for _, lists := range [][][]PartitionStatus{{owner, other, late}, {late, other, owner}, {other, late, owner}} {
		all := make([]PartitionStatus, 2)
		for _, list := range lists {
			fold(all, list)
		}
		type line struct {
			Owner    string
			Term     int64
			Standbys []StandbyStatus
		}
		var have []line
		for _, s := range all {
			have = append(have, line{s.Owner, s.Term, s.Standbys})
		}
		if got := fmt.Sprint(have); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
