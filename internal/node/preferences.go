package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/waterclock/waterclock/calendar"
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
	s, err := postgres.New(postgres.Options{URL: n.cfg.Postgres.URL})
	if err != nil {
		return &SettingError{err.Error()}
	}
	n.preferences = s
	return nil
}

// openDevPreferences opens them in the data directory.
func (n *node) openDevPreferences() error {
	s, err := embedded.Open(embedded.Options{
		Dir: filepath.Join(n.cfg.DataDir, preferencesDir), Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.preferences = s
	return nil
}

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
	return consent.New(consent.Options{
		Store: n.preferences, Zones: n.zones, Channel: channel, Logger: n.log,
	})
}

// zones are the tz database in force.
func (n *node) zones() *calendar.Zones {
	if n.engine != nil {
		return n.engine.Timetable().Zones
	}
	return n.timetable.Zones
}

// startMoves moves triggers to their users' new zones, where there are preferences.
func (n *node) startMoves(life *roles) {
	if n.preferences != nil && (n.ownBroker || n.cfg.HasRole("api")) {
		life.start("zone moves", func(ctx context.Context) error { return n.gateway.RunMoves(ctx) })
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
