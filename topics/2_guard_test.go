package topics

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/waterclock/waterclock/schemas/statepb"
)

func someGuard() *Guard {
	return &Guard{
		Seq: 7, Group: "waterclock", Commands: LastRead{12, 3, 0xfeedbeef, Marker{}},
		Receipts:   LastRead{0, -1, 5, Marker{}},
		ReceiptsID: [16]byte{1, 15: 2}, ControlID: [16]byte{3, 15: 4},
		Applied: map[int32]AppliedOrigin{-1: {5, 1_790_000_000_000}, 2: {9, 1_790_000_000_001}},
	}
}

func TestGuardSurvivesTheWire(t *testing.T) {
	want := someGuard()
	want.Receipts.Behind = Marker{9, 4}
	b, err := AppendGuard(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeGuard(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	var pb statepb.Guard
	if err := proto.Unmarshal(b, &pb); err != nil || pb.Commands.LeaderEpoch != 3 || pb.Receipts.LeaderEpoch != -1 ||
		len(pb.Applied) != 2 || pb.Receipts.BehindOffset != 9 || pb.Receipts.BehindLeaderEpoch != 4 {
		t.Errorf("generated code reads %v, %v", &pb, err)
	}
	if got, err := DecodeGuard(append(b, 0x78, 1)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a field of a newer version: %+v, %v", got, err)
	}
}

func FuzzGuard(f *testing.F) {
	b, _ := AppendGuard(nil, someGuard())
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := DecodeGuard(b)
		if err != nil {
			return
		}
		spelled, err := AppendGuard(nil, g)
		if err != nil {
			t.Fatal(err)
		}
		if h, err := DecodeGuard(spelled); err != nil || !reflect.DeepEqual(g, h) {
			t.Fatalf("%+v became %+v, %v", g, h, err)
		}
	})
}
