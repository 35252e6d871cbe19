package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"

	"github.com/waterclock/waterclock/schemas/postgres"
)

// versionTable has a row for each migration that was applied.
const versionTable = "waterclock_migrations"

// migrate applies what is not applied yet. A schema of a newer release is left as
// it is: migrations only ever add.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60)) // it asks every second
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	versions, err := database.NewStore(database.DialectPostgres, versionTable)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	// The dialect is the store's.
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
