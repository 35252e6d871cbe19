package broker

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// members ends the sessions of group members that died while they waited for the
// answer to JoinGroup. kfake starts a member's session timeout when it answers.
// It cannot answer such a member, so it would keep it for ever, together with the
// partitions that the group's leader assigns to it.
type members struct {
	mu    sync.Mutex
	shut  bool
	lost  map[member]*time.Timer // waited in JoinGroup when their connection ended
	count atomic.Int32           // of lost: most requests need no lock
}

func newMembers() members { return members{lost: map[member]*time.Timer{}} }

// member is one member of one consumer group.
type member struct{ group, id string }

// maxLost bounds what hostile clients can make us remember. Members beyond it
// stay in their groups.
const maxLost = 10_000

// lose calls leave once the session timeout of m is over, unless m is heard of
// before.
func (s *members) lose(m member, session time.Duration, leave func(member)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || s.lost[m] != nil || len(s.lost) >= maxLost {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(session, func() {
		if s.remove(m, timer) {
			leave(m)
		}
	})
	s.lost[m] = timer
	s.count.Store(int32(len(s.lost)))
}

// hear says that a member has sent a request.
func (s *members) hear(m member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if timer := s.lost[m]; timer != nil {
		timer.Stop()
		delete(s.lost, m)
		s.count.Store(int32(len(s.lost)))
	}
}

// remove says whether timer is still the one that m waits for.
func (s *members) remove(m member, timer *time.Timer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut || s.lost[m] != timer {
		return false
	}
	delete(s.lost, m)
	s.count.Store(int32(len(s.lost)))
	return true
}

// stop forgets all.
func (s *members) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	for _, timer := range s.lost {
		timer.Stop()
	}
}

// inspectMember notes what a member of a group sends.
func (b *node) inspectMember(cl *call, req kmsg.Request, rest []byte) error {
	if cl.key != int16(kmsg.JoinGroup) && b.members.count.Load() == 0 {
		return nil
	}
	if req.ReadFrom(rest) != nil {
		return errFrame
	}
	switch req := req.(type) {
	case *kmsg.JoinGroupRequest:
		cl.join = req
		b.members.hear(member{req.Group, req.MemberID})
	case *kmsg.SyncGroupRequest:
		b.members.hear(member{req.Group, req.MemberID})
	case *kmsg.HeartbeatRequest:
		b.members.hear(member{req.Group, req.MemberID})
	}
	return nil
}

// loseMember is called when a connection ends whose JoinGroup has no answer.
func (b *node) loseMember(req *kmsg.JoinGroupRequest) {
	if req.MemberID == "" {
		return // its first request: kfake answers it with an id, or had none to keep
	}
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	b.members.lose(member{req.Group, req.MemberID}, session, b.leaveGroup)
}

// leaveWithin bounds the request to kfake, which is in this process.
const leaveWithin = 10 * time.Second

// leaveGroup takes a member out of its group, as if it had left.
func (b *node) leaveGroup(m member) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.listen), kgo.DisableClientMetrics(),
		kgo.Dialer(func(ctx context.Context, _, _ string) (net.Conn, error) { return b.doors.inner.DialContext(ctx) }))
	if err != nil {
		b.log.Error("cannot end the session of a dead group member", "group", m.group, "member", m.id, "error", err)
		return
	}
	defer cl.Close()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.group, m.id // up to version 2
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id}}
	if _, err := req.RequestWith(ctx, cl); err != nil {
		b.log.Warn("cannot end the session of a dead group member", "group", m.group, "member", m.id, "error", err)
		return
	}
	b.log.Info("a group member died while it waited to join; its session has ended", "group", m.group, "member", m.id)
}
