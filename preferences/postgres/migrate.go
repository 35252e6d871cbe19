package postgres

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/waterclock/waterclock/schemas/postgres"
)

// versionTable has a row for each applied migration.
const versionTable = "waterclock_migrations"

// migration is a running migration. err is set once done is closed.
type migration struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// migrateWithin bounds a migration. It may have to read a table of millions of users.
const migrateWithin = 15 * time.Minute

// prepare waits until the schema is ready. A migration goes on when ctx ends, because one that is
// interrupted is rolled back, and the next call would have to begin it anew.
func (s *Store) prepare(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	if r, err := s.Probe(ctx); err != nil || r.Schema >= r.Newest {
		s.ready.Store(err == nil)
		return err
	}
	m := s.startMigration()
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return fmt.Errorf("the schema is being migrated: %w", ctx.Err())
	}
}

// startMigration returns the migration that runs. It starts one if none does.
func (s *Store) startMigration() *migration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.migration != nil {
		return s.migration
	}
	ctx, cancel := context.WithTimeout(context.Background(), migrateWithin)
	m := &migration{cancel: cancel, done: make(chan struct{})}
	s.migration = m
	if s.closed {
		cancel()
	}
	go func() {
		defer cancel()
		m.err = s.migrate(ctx, s.pool)
		s.ready.Store(m.err == nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.migration = nil
		close(m.done)
	}()
	return m
}

// endMigration cancels a migration, and each that begins later.
func (s *Store) endMigration() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.migration != nil {
		s.migration.cancel()
	}
}

// migrate applies the missing migrations. It leaves the schema of a newer release as it is,
// because migrations only add.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60)) // it tries once per second
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	versions, err := database.NewStore(database.DialectPostgres, versionTable)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	// The version store brings the dialect.
	p, err := goose.NewProvider(database.DialectCustom, db, postgres.Migrations, goose.WithStore(versions),
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Report is the result of Probe.
type Report struct {
	Server     string // version of PostgreSQL
	Schema     int64  // the last migration that was applied; 0: none
	Newest     int64  // the last migration in this binary
	MayMigrate bool   // the user may create tables
}

const probe = `
SELECT current_setting('server_version'), to_regclass('` + versionTable + `') IS NOT NULL,
    coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)`

// Probe connects and reports the state of the database. It writes nothing.
func (s *Store) Probe(ctx context.Context) (r Report, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Within)
	defer cancel()
	if r.Newest, err = newest(); err != nil {
		return r, err
	}
	var migrated bool
	if err := s.pool.QueryRow(ctx, probe).Scan(&r.Server, &migrated, &r.MayMigrate); err != nil || !migrated {
		return r, err
	}
	err = s.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&r.Schema)
	return r, err
}

// newest returns the number of the last migration.
func newest() (int64, error) {
	names, err := fs.Glob(postgres.Migrations, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("no migrations: %w", err)
	}
	return goose.NumericComponent(names[len(names)-1])
}
