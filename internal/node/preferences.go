package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/preferences/postgres"
	"github.com/waterclock/waterclock/sinks/consent"
)

// openPreferences opens the store of users' preferences, for the API and for workers. It is in
// PostgreSQL if postgres.url is set. It does not connect yet.
func (n *node) openPreferences() error {
	sends := slices.ContainsFunc(config.WorkerChannels(), n.cfg.HasRole) // and checks preferences before
	if n.cfg.Postgres.URL == "" || !n.cfg.HasRole("api") && !sends {
		return nil
	}
	s, err := postgres.New(postgres.Options{URL: n.cfg.Postgres.URL, MaxUsers: n.maxUsers})
	if err != nil {
		return &SettingError{err.Error()}
	}
	n.preferences = s
	return nil
}

// openDevPreferences opens the store in the data directory, unless postgres.url is set.
func (n *node) openDevPreferences() error {
	if n.cfg.Postgres.URL != "" {
		return n.openPreferences()
	}
	s, err := embedded.Open(embedded.Options{
		Dir: filepath.Join(n.cfg.DataDir, preferencesDir), Logger: n.log, MaxUsers: n.maxUsers,
	})
	if err != nil {
		return err
	}
	n.preferences = s
	return nil
}

// maxUsers bounds how many users of a tenant may have preferences.
func (n *node) maxUsers(tenant string) int { return n.cfg.Tenant(tenant).MaxUsers }

func (n *node) closePreferences() {
	if n.preferences == nil {
		return
	}
	if err := n.preferences.Close(); err != nil {
		n.log.Warn("closing the preferences failed", "error", err)
	}
}

// consent returns the gate that checks users' preferences for a channel's due events.
func (n *node) consent(channel string) *consent.Gate {
	c := n.cfg.Channel(channel)
	o := consent.Options{
		Store: n.preferences, Zones: n.zones, Channel: channel, DedupWindow: c.DedupWindow, Logger: n.log,
	}
	for _, limit := range c.MaxPerUser {
		o.MaxPerUser = append(o.MaxPerUser, consent.Cap(limit))
	}
	return consent.New(o)
}

// zones returns the tz database in force.
func (n *node) zones() *calendar.Zones {
	if n.engine != nil {
		return n.engine.Timetable().Zones
	}
	return n.timetable.Zones
}

// startMoves starts moving triggers to their users' new zones, and erasing users, if preferences
// are stored.
func (n *node) startMoves(life *roles) {
	if n.preferences != nil && (n.fullBroker != nil || n.cfg.HasRole("api")) {
		life.start("zone moves", func(ctx context.Context) error { return n.gateway.RunMoves(ctx) })
		life.start("erasures", func(ctx context.Context) error { return n.gateway.RunErasures(ctx) })
	}
}

// Expired claims are deleted every sweepEvery, at most sweepMost per call. If the store does not
// answer, the next try is after sweepRetry.
const (
	sweepEvery = time.Minute
	sweepRetry = 5 * time.Second
	sweepMost  = 1000
)

// startClaims starts the sweeper of message claims. Its first call creates the tables in
// PostgreSQL, so that no worker has to wait for that.
func (n *node) startClaims(life *roles) {
	if n.preferences != nil {
		life.start("claims", func(ctx context.Context) error {
			sweepClaims(ctx, n.preferences, n.log)
			return nil
		})
	}
}

func sweepClaims(ctx context.Context, s preferences.Store, log *slog.Logger) {
	for pause := time.Duration(0); ; {
		if wait.For(ctx, pause); ctx.Err() != nil {
			return
		}
		dropped, err := s.Sweep(ctx, time.Now(), sweepMost)
		switch {
		case err != nil:
			log.Debug("expired claims of messages could not be deleted; will retry", "error", err)
			pause = sweepRetry
		case dropped == sweepMost:
			pause = 0
		default:
			pause = sweepEvery
		}
	}
}

// checkpointer is a store that can make a copy of itself for a backup.
type checkpointer interface{ Checkpoint(dir string) error }

var _ checkpointer = (*embedded.Store)(nil)

// copyOf returns how to copy the preferences, or nil if they are not stored in this process.
func copyOf(s preferences.Store) checkpointer {
	c, _ := s.(checkpointer)
	return c
}

// verifyPreferences opens a copy. A backup by a release without preferences has no such
// directory.
func verifyPreferences(dir string, log *slog.Logger) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := embedded.Open(embedded.Options{Dir: dir, Logger: log})
	if err != nil {
		return err
	}
	return s.Close()
}
