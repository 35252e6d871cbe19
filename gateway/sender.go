package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
)

// sender writes commands for which no caller waits: those of moves and erasures. They count among
// their tenant's undecided ones, because commands of others stand behind them.
type sender struct {
	commands  *commandLog
	decider   *decider
	undecided *undecided
}

// sending is commands of one tenant that are on their way, at most so many. One goroutine uses it.
type sending struct {
	*sender

	tenant   string
	most     int
	inFlight int // have room among the undecided
	sent     chan sentCommand
}

type sentCommand struct {
	peer.Question
	location
}

func (s *sender) begin(tenant string, most int) *sending {
	return &sending{sender: s, tenant: tenant, most: most, sent: make(chan sentCommand, most)}
}

// send writes a command as soon as its tenant has room. While the disk is full, it refuses it.
func (s *sending) send(ctx context.Context, c *command) error {
	if err := s.commands.full(); err != nil {
		return err
	}
	s.undecided.writes(s.tenant)
	if s.inFlight == s.most || !s.undecided.try(s.tenant) {
		// Those on their way hold room, and must not wait for themselves.
		if err := s.land(ctx); err != nil {
			return err
		}
		if err := s.undecided.wait(ctx, s.tenant); err != nil {
			return fmt.Errorf("wait for earlier commands of the tenant: %w", err)
		}
	}
	s.inFlight++
	key, sent := c.key, s.sent
	s.commands.send(ctx, c, func(at location) {
		sent <- sentCommand{peer.Question{Key: key, Offset: at.offset}, at}
	})
	return nil
}

// land waits until the commands on their way are durable and decided. It returns an error if some
// are not durable, at once if the disk is full. Then nothing more is sent.
func (s *sending) land(ctx context.Context) error {
	n := s.inFlight
	s.inFlight = 0
	defer s.undecided.done(s.tenant, n)
	late := time.NewTimer(s.commands.within)
	defer late.Stop()
	lists := map[int32][]peer.Question{}
	for range n {
		c, err := acknowledgedBefore(s.commands, late.C, s.sent)
		if err != nil {
			return err
		}
		if c.err != nil {
			return fmt.Errorf("produce: %w", c.err)
		}
		lists[c.partition] = append(lists[c.partition], c.Question)
	}
	if s.undecided == nil {
		return nil // they are in nobody's way
	}
	ctx, cancel := context.WithTimeout(ctx, s.decider.within)
	defer cancel()
	for partition, list := range lists {
		s.decider.decisions(ctx, partition, list)
	}
	return nil
}
