package engine

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/topics"
)

// Which format of topic state members read, they say where the group keeps what
// it knows of them: behind the warmth of their stores (standby_balance.go), as
// that of a partition that there is not; and in a group that the brokers
// balance, which carries no such data, in the client id.

// formatsAt is the partition under which a member's format stands.
const (
	formatsAt    int32 = -1
	roundsAt     int32 = -2 // how many rounds of a rebalance it has asked for, modulo 256
	newestFormat       = warmth(topics.Newest)
)

// clientIDReads begins the client id of members of a group that brokers balance.
const clientIDReads = "waterclock;reads="

func readsInClientID() string { return fmt.Sprint(clientIDReads, uint64(topics.Newest)) }

// readsOf is the newest format that a member reads; one that does not say reads
// the oldest.
func readsOf(m *kadm.DescribedGroupMember) topics.Format {
	c, ok := m.Join.AsConsumer()
	if !ok {
		return topics.Oldest
	}
	return readsOfData(c.UserData)
}

func readsOfData(userData []byte) topics.Format {
	return max(topics.Oldest, topics.Format(readMember(userData)[formatsAt]))
}

func readsOfClient(clientID string) topics.Format {
	n, err := strconv.ParseUint(strings.TrimPrefix(clientID, clientIDReads), 10, 32)
	if err != nil || !strings.HasPrefix(clientID, clientIDReads) {
		return topics.Oldest
	}
	return max(topics.Oldest, topics.Format(n))
}

// agreeOnFormat finds the newest format that every member reads, and writes it
// from then on. While the group is not stable, and while nobody answers, it
// stays what it was; a member that is older brings it back at once.
func (e *Engine) agreeOnFormat(ctx context.Context) (done bool) {
	_, members, err := e.describeGroup(ctx)
	if err != nil || len(members) == 0 {
		return false
	}
	agreed := topics.Newest
	for _, m := range members {
		agreed = min(agreed, m.reads)
	}
	e.process.AgreeOn(agreed)
	if was := topics.Format(e.readByAll.Swap(uint64(agreed))); was != agreed && (was != 0 || agreed < topics.Newest) {
		e.process.Logger.Info("every member of the group reads this format of topic state", "format", agreed,
			"before", was)
	}
	return true
}

// agreeOnce asks before the first partition of the process makes its first turn. It
// waits 5 s at most, and then the newest format is written where a state needs it, until
// agreeOnFormat hears of a member that does not read it: that one refuses such a
// partition and says so, while an older format would lose something in silence.
func (e *Engine) agreeOnce(ctx context.Context) {
	if !e.agreeing.CompareAndSwap(false, true) {
		select {
		case <-e.agreed:
		case <-ctx.Done():
		}
		return
	}
	defer close(e.agreed)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for !e.agreeOnFormat(ctx) && ctx.Err() == nil {
		wait.For(ctx, 50*time.Millisecond)
	}
}
