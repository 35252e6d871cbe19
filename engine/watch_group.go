package engine

import (
	"context"
	"sync"

	"github.com/waterclock/waterclock/internal/wait"
)

// group is one description of the group: our name in it, and its members. Without members it is
// not stable, or not known.
type group struct {
	me      string
	members []member
}

// watchGroup asks for the group's members at an interval until ctx ends. One answer serves all who
// need it, because with 100 members each question is about 100 members.
func (e *Engine) watchGroup(ctx context.Context) {
	var beside sync.WaitGroup
	defer beside.Wait()
	groups := make(chan group, 1)
	if e.process.Standby > 0 {
		beside.Go(func() { e.standBy(ctx, groups) }) // closing a store must not delay the others
	}
	orphaned := 0
	wait.Every(ctx, standbyInterval, func() {
		me, members, err := e.describeGroup(ctx)
		if err != nil {
			e.process.Logger.Debug("the members of the group are unknown; standbys do not change", "error", err)
			members = nil
		}
		g := group{me, members}
		e.agreeOnFormat(members)
		if !e.process.ServerAssigns {
			orphaned = e.adoptOrphans(orphaned, g)
		}
		if members != nil {
			newest(groups, g) // last: standBy sorts the members
		}
	})
}

// newest sends in place of what nobody has received yet. It must be the only sender.
func newest(groups chan group, g group) {
	select {
	case <-groups:
	default:
	}
	groups <- g
}
