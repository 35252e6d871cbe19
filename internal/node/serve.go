package node

import (
	"context"
	"net"
)

// Serve runs the roles of the settings against their brokers until ctx ends or
// a role fails.
func Serve(ctx context.Context, o Options) error {
	dir, err := openDataDir(o.Config.DataDir)
	if err != nil {
		return err
	}
	defer dir.close()
	n, err := newNode(o)
	if err != nil {
		return err
	}
	defer n.closing(n.closeTracing)()
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
	defer n.closing(n.closeHistory)()
	if err := n.openPreferences(); err != nil {
		return err
	}
	defer n.closing(n.closePreferences)()
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
	if err := n.openGateway(); err != nil {
		return err
	}
	defer n.closing(n.gateway.Close)()
	if n.cfg.HasRole("webhook") {
		if err := n.openWebhook(false); err != nil {
			return err
		}
		defer n.closing(n.closeWebhook)()
	}
	if err := n.openNotify(); err != nil {
		return err
	}
	defer n.closing(n.closeNotify)()
	life := newRoles(n.cfg.Stop.Timeout, n.log)
	defer func() { err = n.finish(life, err) }() // runs before everything that the roles use is closed
	life.start("memory", n.watchMemory)
	if err := n.startAdmin(life); err != nil {
		return err
	}
	if n.cfg.HasRole("history") {
		life.start("history", n.runHistory)
		life.start("letters", n.runLetters)
		life.start("contents", n.runContents)
	}
	if n.engine != nil {
		life.start("engine", n.engine.Run)
		life.start("forecasts", n.engine.KeepForecasts)
		n.startReconcile(life)
	}
	if n.webhooks != nil {
		life.start("webhook", n.runWebhook)
	}
	n.startNotify(life)
	if err := n.startExport(life); err != nil {
		return err
	}
	n.startInternal(life)
	n.startMoves(life)
	n.startClaims(life)
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
