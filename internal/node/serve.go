package node

import (
	"context"
	"net"

	"github.com/waterclock/waterclock/internal/heap"
)

// Serve runs the roles of the settings against their brokers until ctx ends or
// a role fails.
func Serve(ctx context.Context, o Options) (err error) {
	dir, err := openDataDir(o.Config.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	n, err := newNode(o)
	if err != nil {
		return err
	}
	defer func() { err = n.ended(err) }()
	heap.Manage(heap.LeastGrowth)
	defer n.closing("tracing", n.closeTracing)()
	ln, err := listen(o.Config, "listen", o.Config.Listen)
	if err != nil {
		return err
	}
	defer ln.Close()
	if err := n.prepare(ctx); err != nil {
		return err
	}
	if err := n.openHistory(); err != nil {
		return err
	}
	defer n.closing("history", n.closeHistory)()
	if err := n.openPreferences(); err != nil {
		return err
	}
	defer n.closing("preferences", n.closePreferences)()
	return n.serveRoles(ctx, ln)
}

// serveRoles starts the configured roles and waits. It serves probes, metrics and
// /v1/partitions for all roles.
func (n *node) serveRoles(ctx context.Context, ln net.Listener) (err error) {
	if err := n.openInternal(); err != nil {
		return err
	}
	defer n.internal.Close()
	if n.cfg.HasRole("engine") {
		if err := n.openEngine(); err != nil {
			return err
		}
	}
	var opened closers
	defer opened.close()
	if err := n.openDoors(&opened, false); err != nil {
		return err
	}
	life := newRoles(n.cfg.Stop.Timeout, n.log)
	defer func() { err = n.finish(life, err) }() // runs before everything that the roles use is closed
	if err := n.startRoles(life, n.cfg.HasRole("history")); err != nil {
		return err
	}
	if n.history != nil {
		life.start("history tables", n.awaitHistory)
	}
	n.startReloads(life, true)
	life.start("http", func(ctx context.Context) error { return n.serveDoor(ctx, ln) })
	n.log.Info("serving", "roles", n.cfg.Roles, "listen", ln.Addr().String(), "internal", n.internalAddress)
	return life.wait(ctx)
}

// serveDoor serves the API; without the role api, only probes and metrics.
func (n *node) serveDoor(ctx context.Context, ln net.Listener) error {
	if n.cfg.HasRole("api") {
		return n.gateway.Serve(ctx, ln)
	}
	return serveHTTP(ctx, ln, n.doorHandler(ln.Addr()), n.log)
}
