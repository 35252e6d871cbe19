package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const testSession = 6 * time.Second // the least that Kafka allows by default

// groupMember speaks the protocol of consumer groups by hand.
type groupMember struct {
	t          *testing.T
	cl         *kgo.Client
	id         string
	generation int32
}

func newGroupMember(t *testing.T, b *Broker) *groupMember {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &groupMember{t: t, cl: cl}
}

// join joins, and says whether it is the leader.
func (m *groupMember) join(ctx context.Context) (leader bool, members int, err error) {
	for {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType = "g", m.id, "consumer"
		req.SessionTimeoutMillis = int32(testSession.Milliseconds())
		req.RebalanceTimeoutMillis = 60_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "any"}}
		resp, err := req.RequestWith(ctx, m.cl)
		if err != nil {
			return false, 0, err
		}
		switch err := kerr.ErrorForCode(resp.ErrorCode); {
		case errors.Is(err, kerr.MemberIDRequired):
			m.id = resp.MemberID
		case err != nil:
			return false, 0, err
		default:
			m.generation = resp.Generation
			return resp.LeaderID == m.id, len(resp.Members), nil
		}
	}
}

func (m *groupMember) sync() {
	m.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = "g", m.id, m.generation
	resp, err := req.RequestWith(m.t.Context(), m.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		m.t.Fatalf("sync: %v", err)
	}
}

func (m *groupMember) heartbeat() error {
	m.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = "g", m.id, m.generation
	resp, err := req.RequestWith(m.t.Context(), m.cl)
	if err != nil {
		m.t.Fatalf("heartbeat: %v", err)
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// awaitRebalance sends heartbeats until the group asks to join, and says how long
// that took.
func (m *groupMember) awaitRebalance(within time.Duration) time.Duration {
	m.t.Helper()
	begin := time.Now()
	for time.Since(begin) < within {
		if err := m.heartbeat(); errors.Is(err, kerr.RebalanceInProgress) {
			return time.Since(begin)
		} else if err != nil {
			m.t.Fatalf("heartbeat: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	m.t.Fatalf("no rebalance within %v", within)
	return 0
}

// TestMemberDiesWhileItJoins: the group keeps a member that died while it waited
// in JoinGroup for its session timeout, and no longer.
func TestMemberDiesWhileItJoins(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	lives, dies := newGroupMember(t, b), newGroupMember(t, b)
	if _, _, err := lives.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	lives.sync()
	go dies.join(t.Context())
	lives.awaitRebalance(10 * time.Second)
	dies.cl.Close()
	time.Sleep(200 * time.Millisecond) // kfake sees it
	if leader, members, err := lives.join(t.Context()); err != nil || !leader || members != 2 {
		t.Fatalf("leader %v of %d members, %v; want the leader of 2", leader, members, err)
	}
	lives.sync()
	if took := lives.awaitRebalance(testSession + 10*time.Second); took < testSession/2 {
		t.Errorf("the member's session was over after %v; its timeout is %v", took, testSession)
	}
	if _, members, err := lives.join(t.Context()); err != nil || members != 1 {
		t.Errorf("%d members, %v; want 1", members, err)
	}
}

// TestMemberComesBackWhileItJoins: one whose connection ended, and who asks once
// more, is no dead member.
func TestMemberComesBackWhileItJoins(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir())
	lives, back := newGroupMember(t, b), newGroupMember(t, b)
	if _, _, err := lives.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	lives.sync()
	go back.join(t.Context())
	lives.awaitRebalance(10 * time.Second)
	back.cl.Close()
	time.Sleep(200 * time.Millisecond)
	second := newGroupMember(t, b)
	second.id = back.id
	joined := make(chan error, 1)
	go func() {
		_, _, err := second.join(t.Context())
		joined <- err
	}()
	time.Sleep(200 * time.Millisecond)
	if _, members, err := lives.join(t.Context()); err != nil || members != 2 {
		t.Fatalf("%d members, %v; want 2", members, err)
	}
	if err := <-joined; err != nil {
		t.Fatal(err)
	}
	lives.sync()
	second.sync()
	for begin := time.Now(); time.Since(begin) < testSession+2*time.Second; time.Sleep(100 * time.Millisecond) {
		for _, m := range []*groupMember{lives, second} {
			if err := m.heartbeat(); err != nil {
				t.Fatalf("after %v: %v", time.Since(begin), err)
			}
		}
	}
}
