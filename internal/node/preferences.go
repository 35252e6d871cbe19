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
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/preferences/postgres"
	"github.com/waterclock/waterclock/sinks/consent"
)

// workerRoles are the roles that ask what users allow before they send.
var workerRoles = []string{"webhook", "push", "sms", "email"}

// openPreferences opens what users want, for the API and for workers: in PostgreSQL
// where postgres.url names one. It does not connect yet.
func (n *node) openPreferences() error {
	if n.cfg.Postgres.URL == "" || !n.cfg.HasRole("api") && !slices.ContainsFunc(workerRoles, n.cfg.HasRole) {
		return nil
	}
	s, err := postgres.New(postgres.Options{URL: n.cfg.Postgres.URL, MaxUsers: n.maxUsers})
	if err != nil {
		return &SettingError{err.Error()}
	}
	n.preferences = s
	return nil
}

// openDevPreferences opens them in the data directory.
func (n *node) openDevPreferences() error {
	s, err := embedded.Open(embedded.Options{
		Dir: filepath.Join(n.cfg.DataDir, preferencesDir), Logger: n.log, MaxUsers: n.maxUsers,
	})
	if err != nil {
		return err
	}
	n.preferences = s
	return nil
}

// maxUsers is how many users of a tenant there may be preferences for.
func (n *node) maxUsers(tenant string) int { return n.cfg.Tenant(tenant).MaxUsers }

func (n *node) closePreferences() {
	if n.preferences == nil {
		return
	}
	if err := n.preferences.Close(); err != nil {
		n.log.Warn("closing the preferences failed", "error", err)
	}
}

// consent is what asks the users of a channel's due events.
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

// zones are the tz database in force.
func (n *node) zones() *calendar.Zones {
	if n.engine != nil {
		return n.engine.Timetable().Zones
	}
	return n.timetable.Zones
}

// startMoves moves triggers to their users' new zones, and erases users, where there are
// preferences.
func (n *node) startMoves(life *roles) {
	if n.preferences != nil && (n.fullBroker != nil || n.cfg.HasRole("api")) {
		life.start("zone moves", func(ctx context.Context) error { return n.gateway.RunMoves(ctx) })
		life.start("erasures", func(ctx context.Context) error { return n.gateway.RunErasures(ctx) })
	}
}

// Claims that are over are dropped every sweepEvery, sweepMost in one call. A store that
// does not answer is asked after sweepRetry.
const (
	sweepEvery = time.Minute
	sweepRetry = 5 * time.Second
	sweepMost  = 1000
)

// startClaims sweeps the claims of messages. Its first call makes the tables in
// PostgreSQL, before a worker needs them in a hurry.
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
			log.Debug("claims of messages could not be swept; they will be", "error", err)
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

// copyOf is how preferences are copied; nil where they are not in this process.
func copyOf(s preferences.Store) checkpointer {
	c, _ := s.(checkpointer)
	return c
}

// verifyPreferences opens a copy. One of a release that kept none has no directory.
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
