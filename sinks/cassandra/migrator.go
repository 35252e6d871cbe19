package cassandra

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/gocql/gocql"

	schema "github.com/waterclock/waterclock/schemas/cassandra"
)

// Migrated is the result of Migrate.
type Migrated struct {
	Version int      // of the schema now
	Applied []string // NNNN_name of each applied migration; empty if there was none to apply
}

// Migrate creates the keyspace if needed, and applies the missing migrations in order. It may be
// interrupted anywhere and run once more. Many processes may call it at once: they take turns by
// a lock row, which expires a minute after its holder died.
//
// If two nodes create the same table at the same moment, each assigns its own id, and Cassandra
// never recovers from that by itself. So all migrators connect to one node: the first of the
// configured hosts, in sorted order, that answers.
func Migrate(ctx context.Context, opts Options) (Migrated, error) {
	if err := opts.Validate(); err != nil {
		return Migrated{}, err
	}
	known, err := loadMigrations(schema.Migrations)
	if err != nil {
		return Migrated{}, fmt.Errorf("migrate: %w", err)
	}
	done, err := migrate(ctx, opts.withDefaults(), known)
	if err != nil {
		return done, fmt.Errorf("migrate: %w", err)
	}
	return done, nil
}

func migrate(ctx context.Context, opts Options, known []migration) (Migrated, error) {
	upToDate, err := prepare(ctx, opts, known)
	if err != nil || upToDate {
		return Migrated{Version: len(known)}, err
	}
	session, err := oneNode(opts, opts.Keyspace)
	if err != nil {
		return Migrated{}, unavailable(err)
	}
	defer session.Close()
	m := &migrator{opts: opts, session: session, known: known, owner: ownerName()}
	return m.run(ctx)
}

// prepare creates what the lock needs: the keyspace and two tables. It does nothing if there is
// nothing to migrate; then a role without permission to create is enough.
func prepare(ctx context.Context, opts Options, known []migration) (upToDate bool, err error) {
	session, err := oneNode(opts, "")
	if err != nil {
		return false, unavailable(err)
	}
	defer session.Close()
	have, err := readApplied(ctx, session, opts.Keyspace)
	if err == nil {
		todo, err := pending(opts.Keyspace, known, have)
		return err == nil && len(todo) == 0, err
	}
	if !missing(err) {
		return false, unavailable(fmt.Errorf("read schema_migrations: %w", err))
	}
	for _, cql := range []string{
		`CREATE KEYSPACE IF NOT EXISTS ` + opts.Keyspace + ` WITH replication = ` + opts.Replication.cql() +
			` AND durable_writes = true`,
		`CREATE TABLE IF NOT EXISTS ` + opts.Keyspace + `.schema_lock (name text PRIMARY KEY, owner text)`,
		`CREATE TABLE IF NOT EXISTS ` + opts.Keyspace +
			`.schema_migrations (version int PRIMARY KEY, name text, checksum text, applied_at timestamp, applied_by text)`,
	} {
		if err := ddl(ctx, session, cql); err != nil {
			return false, fmt.Errorf("create keyspace %s: %w", opts.Keyspace, err)
		}
	}
	return false, nil
}

// ddl runs a statement that changes the schema, and waits until the nodes agree.
func ddl(ctx context.Context, session *gocql.Session, cql string) error {
	if err := session.Query(cql).WithContext(ctx).Exec(); err != nil {
		return err
	}
	return session.AwaitSchemaAgreement(ctx)
}

// oneNode connects to the first host in sorted order that answers.
func oneNode(opts Options, keyspace string) (*gocql.Session, error) {
	c, err := cluster(opts)
	if err != nil {
		return nil, err
	}
	c.Keyspace = keyspace
	c.Timeout = max(c.Timeout, 30*time.Second) // creating a table is slow
	var errs []error
	for _, host := range slices.Sorted(slices.Values(c.Hosts)) {
		one := *c
		one.Hosts = []string{host}
		one.PoolConfig.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
		one.HostFilter = onlyHost(host)
		session, err := one.CreateSession()
		if err == nil {
			return session, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", host, err))
	}
	return nil, errors.Join(errs...)
}

// onlyHost keeps the session at one node. A name is resolved once. A node that listens under
// another address than it announces to its peers is accepted.
func onlyHost(host string) gocql.HostFilter {
	ips, err := net.LookupIP(host)
	return gocql.HostFilterFunc(func(h *gocql.HostInfo) bool {
		return err != nil || slices.ContainsFunc(ips, h.ConnectAddress().Equal)
	})
}

func ownerName() string {
	host, _ := os.Hostname()
	random := make([]byte, 8)
	rand.Read(random)
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(random))
}

// migrator is one run of Migrate.
type migrator struct {
	opts    Options
	session *gocql.Session
	known   []migration
	owner   string
}

// run applies what is missing once it has the lock. By then another process may have done it.
func (m *migrator) run(ctx context.Context) (done Migrated, err error) {
	if err := m.lock(ctx); err != nil {
		return done, fmt.Errorf("lock: %w", err)
	}
	defer func() { err = errors.Join(err, m.unlock()) }()
	have, err := readApplied(ctx, m.session, m.opts.Keyspace)
	if err != nil {
		return done, fmt.Errorf("read schema_migrations: %w", err)
	}
	todo, err := pending(m.opts.Keyspace, m.known, have)
	if err != nil {
		return done, err
	}
	for _, mig := range todo {
		label := fmt.Sprintf("%04d_%s", mig.version, mig.name)
		if err := m.apply(ctx, mig); err != nil {
			return done, fmt.Errorf("%s: %w", label, err)
		}
		m.opts.Logger.Info("history: migrated", "keyspace", m.opts.Keyspace, "migration", label)
		done.Applied = append(done.Applied, label)
	}
	done.Version = len(m.known)
	return done, nil
}

// apply runs the statements of a migration, each of which may have run before, and then records
// the migration.
func (m *migrator) apply(ctx context.Context, mig migration) error {
	for i, cql := range mig.statements {
		if err := m.renew(ctx); err != nil {
			return err
		}
		if err := ddl(ctx, m.session, cql); err != nil {
			return fmt.Errorf("statement %d: %w", i+1, err)
		}
	}
	return m.session.Query(`INSERT INTO schema_migrations (version, name, checksum, applied_at, applied_by) VALUES (?, ?, ?, ?, ?)`,
		mig.version, mig.name, mig.checksum, time.Now(), m.owner).WithContext(ctx).Exec()
}

const (
	lockSeconds = 60
	lockPoll    = 250 * time.Millisecond
)

// errLockLost means that this process paused for longer than the lock lasts.
var errLockLost = errors.New("another process took the migration lock")

func (m *migrator) lock(ctx context.Context) error {
	for {
		took, err := m.cas(ctx,
			`INSERT INTO schema_lock (name, owner) VALUES ('migrations', ?) IF NOT EXISTS USING TTL ?`, m.owner,
			lockSeconds)
		if err != nil || took {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPoll):
		}
	}
}

func (m *migrator) renew(ctx context.Context) error {
	ours, err := m.cas(ctx, `UPDATE schema_lock USING TTL ? SET owner = ? WHERE name = 'migrations' IF owner = ?`,
		lockSeconds, m.owner, m.owner)
	if err == nil && !ours {
		return errLockLost
	}
	return err
}

// unlock uses its own context, because a cancelled migration must not delay the others for a
// minute.
func (m *migrator) unlock() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := m.cas(ctx, `DELETE FROM schema_lock WHERE name = 'migrations' IF owner = ?`, m.owner)
	return err
}

// cas runs a conditional write and reports whether its condition was true.
func (m *migrator) cas(ctx context.Context, cql string, args ...any) (bool, error) {
	return m.session.Query(cql, args...).WithContext(ctx).MapScanCAS(map[string]any{})
}
