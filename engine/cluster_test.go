package engine

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
)

// TestMembersSayWhichTopicsTheyMean: what a member puts into its join is what
// others read of it, beside the format and the warmth that older versions read.
func TestMembersSayWhichTopicsTheyMean(t *testing.T) {
	id := [16]byte{1, 2, 3, 0xff, 0xff, 0xff, 0xff, 9}
	ours := Identity{"prod.", id}
	b := newWarmBalancer("prod.commands", func() map[int32]warmth { return map[int32]warmth{3: onDisk} },
		new(atomic.Uint32), func() Identity { return ours })
	var meta kmsg.ConsumerMemberMetadata
	if err := meta.ReadFrom(b.JoinGroupMetadata([]string{"prod.commands"}, nil, -1)); err != nil {
		t.Fatal(err)
	}
	if got, ok := readIdentity(meta.UserData); !ok || got != ours {
		t.Errorf("read %v %v", got, ok)
	}
	have := readMember(meta.UserData)
	if len(have) != 2 || have[3] != onDisk || topics.Format(have[formatsAt]) != topics.Newest {
		t.Errorf("what older versions read is %v", have)
	}
	for n := range meta.UserData { // cut short, nobody trips over it
		if i, ok := readIdentity(meta.UserData[:n]); ok && i != ours {
			t.Fatalf("%d bytes say %v", n, i)
		}
	}
	if i, ok := readIdentity(nil); ok {
		t.Errorf("nothing says %v", i)
	}
}

func TestConflicts(t *testing.T) {
	a, b := [16]byte{1}, [16]byte{2}
	for _, c := range []struct {
		i, other Identity
		want     bool
	}{
		{Identity{"p.", a}, Identity{"p.", a}, false},
		{Identity{"p.", a}, Identity{"q.", a}, true},
		{Identity{"p.", a}, Identity{"p.", b}, true},
		{Identity{"p.", a}, Identity{Prefix: "p."}, false}, // of an older version
		{Identity{"p.", a}, Identity{Prefix: "q."}, true},
	} {
		if c.i.conflicts(c.other) != c.want || c.other.conflicts(c.i) != c.want {
			t.Errorf("%v and %v: want %v", c.i, c.other, c.want)
		}
	}
}

// TestOlderMembersNameTheirPrefix: a member that says nothing is known by what
// it subscribes to; one that subscribes to nothing is nobody's.
func TestOlderMembersNameTheirPrefix(t *testing.T) {
	for _, c := range []struct {
		subscribed []string
		want       string
		ok         bool
	}{
		{[]string{"waterclock.commands"}, "waterclock.", true},
		{[]string{"prod.receipts", "prod.commands"}, "prod.", true},
		{nil, "", false},
		{[]string{"orders"}, "", false},
	} {
		if got, ok := identityOfTopics(c.subscribed); ok != c.ok || got.Prefix != c.want {
			t.Errorf("%v: %v %v", c.subscribed, got, ok)
		}
	}
	if _, ok := identityOf(&kadm.DescribedGroupMember{}); ok {
		t.Error("a member without metadata says something")
	}
	plain := kgo.CooperativeStickyBalancer().JoinGroupMetadata([]string{"old.commands"}, nil, -1)
	var meta kmsg.ConsumerMemberMetadata
	if err := meta.ReadFrom(plain); err != nil {
		t.Fatal(err)
	}
	if _, ok := readIdentity(meta.UserData); ok {
		t.Error("a plain member says which topics it means")
	}
}
