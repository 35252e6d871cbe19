package engine

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
)

// TestMembersSayWhatTheyRead: what a member puts into its join is what others
// read of it; one of a version that says nothing reads the oldest format.
func TestMembersSayWhatTheyRead(t *testing.T) {
	ours := newWarmBalancer("commands", func() map[int32]warmth { return map[int32]warmth{3: onDisk} },
		new(atomic.Uint32), func() Identity { return Identity{Prefix: "x."} })
	for _, c := range []struct {
		name     string
		balancer kgo.GroupBalancer
		want     topics.Format
	}{
		{"this version", ours, topics.Newest},
		{"a newer one", saying{ours, 7}, 7},
		{"one without a word", kgo.CooperativeStickyBalancer(), topics.Oldest},
	} {
		var meta kmsg.ConsumerMemberMetadata
		raw := c.balancer.JoinGroupMetadata([]string{"commands"}, nil, -1)
		if err := meta.ReadFrom(raw); err != nil {
			t.Fatal(err)
		}
		if got := readsOfData(meta.UserData); got != c.want {
			t.Errorf("%s reads %d, want %d", c.name, got, c.want)
		}
		if _, said := readMember(meta.UserData)[formatsAt]; said != (c.name != "one without a word") {
			t.Errorf("%s says what it reads: %v", c.name, said)
		}
	}
	if have := readWarmth(nil); len(have) != 0 {
		t.Errorf("nothing says %v", have)
	}
	for id, want := range map[string]topics.Format{
		"kgo": topics.Oldest, "": topics.Oldest, "waterclock;reads=5": 5,
		"waterclock;reads=x": topics.Oldest, readsInClientID(): topics.Newest,
	} {
		if got := readsOfClient(id); got != want {
			t.Errorf("client id %q reads %d, want %d", id, got, want)
		}
	}
	if got := readsOf(&kadm.DescribedGroupMember{}); got != topics.Oldest {
		t.Errorf("a member without metadata reads %d", got)
	}
}

// saying is a member of another version.
type saying struct {
	*warmBalancer
	format warmth
}

func (s saying) JoinGroupMetadata(interests []string, current map[string][]int32, generation int32) []byte {
	raw := s.GroupBalancer.JoinGroupMetadata(interests, current, generation)
	var m kmsg.ConsumerMemberMetadata
	_ = m.ReadFrom(raw)
	m.UserData = appendWarmth(m.UserData, map[int32]warmth{formatsAt: s.format})
	return m.AppendTo(nil)
}
