package node

import (
	"context"
	"log/slog"
	"testing"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/test/built"
)

// serve starts a node with engine and API until ctx ends. The channel says then, or earlier, why.
func serve(ctx context.Context, t *testing.T, env ...string) (*config.Config, <-chan error) {
	t.Helper()
	return serveWith(ctx, t, Options{}, env...)
}

func serveWith(ctx context.Context, t *testing.T, o Options, env ...string) (*config.Config, <-chan error) {
	t.Helper()
	c, err := config.Load(config.Options{Env: append(env,
		"WATERCLOCK_ROLES=engine,api", "WATERCLOCK_DATA_DIR="+t.TempDir(), "WATERCLOCK_LISTEN="+built.FreeAddr(t),
		"WATERCLOCK_INTERNAL_LISTEN=127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	o.Config, o.Logger = c, slog.New(slog.DiscardHandler)
	go func() { served <- Serve(ctx, o) }()
	return c, served
}
