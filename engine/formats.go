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

// Every member tells the group which format of topic state it reads. The value stands
// behind the warmth of the stores (standby_balance.go), under a partition number that does
// not exist. A group that the brokers balance carries no such data; there it stands in the
// client id.

// formatsAt is the partition number under which a member's format stands.
const (
	formatsAt    int32 = -1
	roundsAt     int32 = -2 // how many rebalances the member has asked for, modulo 256
	newestFormat       = warmth(topics.Newest)
)

// clientIDReads begins the client id of members in a group that the brokers balance.
const clientIDReads = "waterclock;reads="

func readsInClientID() string { return fmt.Sprint(clientIDReads, uint64(topics.Newest)) }

// readsOf returns the newest format that a member reads. A member that names none reads the
// oldest.
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

// agreeOnFormat finds the newest format that every member reads, and has this process write
// it. While the group is not stable, the format stays as it was. When an older member joins, the
// format goes back at once.
func (e *Engine) agreeOnFormat(members []member) (done bool) {
	if len(members) == 0 {
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

// agreeOnce agrees on a format before this process makes its first turn. It waits 5 s at
// most. Without an answer it writes the newest format where a state needs it, because an
// older format would lose a field silently. A member that cannot read it refuses the
// partition and says so.
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
	for ctx.Err() == nil {
		if _, members, err := e.describeGroup(ctx); err == nil && e.agreeOnFormat(members) {
			return
		}
		wait.For(ctx, 50*time.Millisecond)
	}
}
