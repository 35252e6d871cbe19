package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waterclock/waterclock/preferences"
)

// Options configure a store.
type Options struct {
	// URL is postgres://user:password@host/database. Its query may hold any parameter of libpq
	// and pgxpool, such as sslmode and pool_max_conns.
	URL string
	// Within bounds each call. 0 means 5 s.
	Within time.Duration
	// MaxUsers returns for how many users of a tenant Put accepts preferences; 0: no bound. nil:
	// no bound for any tenant.
	MaxUsers func(tenant string) int
}

// logIn is how a new connection logs in.
type logIn struct{ user, password string }

// Store is a preferences.Store in PostgreSQL.
type Store struct {
	opts  Options
	pool  *pgxpool.Pool
	logIn *atomic.Pointer[logIn]

	ready   atomic.Bool // the schema has been migrated
	migrate func(context.Context, *pgxpool.Pool) error

	mu        sync.Mutex
	migration *migration // nil: none runs
	closed    bool
}

var _ preferences.Store = (*Store)(nil)

// New checks the URL. It does not connect.
func New(o Options) (*Store, error) {
	if o.Within == 0 {
		o.Within = 5 * time.Second
	}
	if o.MaxUsers == nil {
		o.MaxUsers = func(string) int { return 0 }
	}
	c, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("postgres.url: %w", redacted(err))
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = o.Within
	}
	if c.ConnConfig.RuntimeParams["application_name"] == "" {
		c.ConnConfig.RuntimeParams["application_name"] = "waterclock"
	}
	by := &atomic.Pointer[logIn]{}
	by.Store(&logIn{c.ConnConfig.User, c.ConnConfig.Password})
	c.BeforeConnect = func(_ context.Context, one *pgx.ConnConfig) error {
		now := by.Load()
		one.User, one.Password = now.user, now.password
		return nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		return nil, fmt.Errorf("postgres.url: %w", err)
	}
	return &Store{opts: o, pool: pool, logIn: by, migrate: migrate}, nil
}

// Rotate takes user and password of a URL, for connections that are opened from now on. Open ones
// stay open. A URL that differs in more is refused: what is stored here is not in another database, and nothing else
// of it would be in force.
func (s *Store) Rotate(to string) error {
	c, err := pgxpool.ParseConfig(to)
	if err != nil {
		return fmt.Errorf("postgres.url: %w", redacted(err))
	}
	is, was := c.ConnConfig, s.pool.Config().ConnConfig
	switch {
	case is.Host != was.Host || is.Port != was.Port || is.Database != was.Database,
		withoutLogIn(to) != withoutLogIn(s.opts.URL):
		return errors.New("postgres.url: another host, port, database or parameter needs a restart; only user and " +
			"password are taken from a changed file")
	case is.Password == "" && was.Password != "":
		return errors.New("postgres.url: the changed file has no password; the one before stays in force")
	}
	s.logIn.Store(&logIn{is.User, is.Password})
	return nil
}

// withoutLogIn is a URL without user and password; "" for settings that are none, such as host=db user=u.
func withoutLogIn(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return ""
	}
	query := u.Query()
	query.Del("user")
	query.Del("password")
	u.User, u.RawQuery = nil, query.Encode()
	return u.String()
}

// redacted keeps the URL out of the error, because it may have a password. pgx blanks the
// password only in a URL that it can parse.
func redacted(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("not a PostgreSQL URL; write postgres://user:password@host/database")
	}
	return err
}

// Conns returns the maximum number of connections. Every call holds one.
func (s *Store) Conns() int { return int(s.pool.Config().MaxConns) }

// Close waits for running calls, and ends a migration. A second Close does nothing.
func (s *Store) Close() error {
	s.endMigration()
	s.pool.Close()
	return nil
}

// Ready connects, and migrates the schema if needed.
func (s *Store) Ready(ctx context.Context) error {
	return s.do(ctx, func(ctx context.Context) error { return s.pool.Ping(ctx) })
}

// do runs f within the bound, once the schema is ready.
func (s *Store) do(ctx context.Context, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, s.opts.Within)
	defer cancel()
	err := s.prepare(bounded)
	if err == nil {
		err = f(bounded)
	}
	switch {
	case err == nil, errors.Is(err, preferences.ErrTooManyUsers):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if _, broken := errors.AsType[*preferences.UnreadableError](err); broken {
		return err
	}
	return fmt.Errorf("%w: %w", preferences.ErrAway, err)
}

const getMany = `
SELECT u.place, p.document, e.erased_at
FROM unnest($1::text[], $2::text[], $3::bytea[]) WITH ORDINALITY AS u (tenant, user_id, user_hash, place)
LEFT JOIN waterclock_preferences p ON p.tenant = u.tenant AND p.user_id = u.user_id
LEFT JOIN waterclock_erasures e ON e.user_hash = u.user_hash
WHERE p.tenant IS NOT NULL OR e.user_hash IS NOT NULL`

// Get reads the preferences of users by one query.
func (s *Store) Get(ctx context.Context, users []preferences.User) (out []*preferences.Preferences, err error) {
	var broken *preferences.UnreadableError
	err = s.do(ctx, func(ctx context.Context) error {
		out, broken, err = s.get(ctx, users)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, broken.OrNil()
}

func (s *Store) get(ctx context.Context, users []preferences.User) (
	[]*preferences.Preferences, *preferences.UnreadableError, error,
) {
	tenants, ids, hashes := make([]string, len(users)), make([]string, len(users)), make([][]byte, len(users))
	for i, u := range users {
		hash := u.Hash()
		tenants[i], ids[i], hashes[i] = u.Tenant, u.ID, hash[:]
	}
	rows, err := s.pool.Query(ctx, getMany, tenants, ids, hashes)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	out, known := make([]*preferences.Preferences, len(users)), make([]bool, len(users))
	var broken *preferences.UnreadableError
	for rows.Next() {
		var row int64
		var document []byte
		var erased *time.Time
		if err := rows.Scan(&row, &document, &erased); err != nil {
			return nil, nil, err
		}
		known[row-1] = true
		p := &preferences.Preferences{}
		if document != nil {
			if p, err = preferences.Parse(document); err != nil {
				broken = broken.Add(users[row-1], err)
				continue
			}
		}
		if erased != nil {
			p.ErasedAt = erased.UTC()
		}
		out[row-1] = p
	}
	for i := range out {
		if !known[i] {
			out[i] = &preferences.Preferences{}
		}
	}
	return out, broken, rows.Err()
}

// The statements of Put. A concurrent Put of the same user waits at putRow or lockDocument.
// putMove then reads the row anew, as the other transaction left it. It could not lock the row
// itself: if the zone seemed unchanged, it would match no row.
const (
	putRow = `
INSERT INTO waterclock_preferences (tenant, user_id) VALUES ($1, $2) ON CONFLICT DO NOTHING`
	putMove = `
INSERT INTO waterclock_zone_moves (tenant, user_id, timezone)
SELECT p.tenant, p.user_id, $3::text
FROM waterclock_preferences p
WHERE p.tenant = $1 AND p.user_id = $2 AND p.timezone <> $3::text AND $3::text <> ''
FOR UPDATE
ON CONFLICT (tenant, user_id) DO UPDATE SET timezone = excluded.timezone, seq = excluded.seq`
	endMove = `
DELETE FROM waterclock_zone_moves WHERE tenant = $1 AND user_id = $2 AND $3::text = ''`
	putDocument = `
UPDATE waterclock_preferences SET timezone = $3, document = $4, updated_at = now()
WHERE tenant = $1 AND user_id = $2`
	// The count includes the new user of this transaction. Other transactions wait until it ends.
	countUsers = `
SELECT coalesce(max(users), 0) FROM waterclock_user_counts WHERE tenant = $1`
)

// Put replaces a user's preferences, and writes a move if the zone is new.
func (s *Store) Put(ctx context.Context, u preferences.User, p *preferences.Preferences) error {
	return s.do(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var b pgx.Batch
			added, users := false, 0
			b.Queue(putRow, u.Tenant, u.ID).Exec(func(tag pgconn.CommandTag) error {
				added = tag.RowsAffected() == 1
				return nil
			})
			b.Queue(countUsers, u.Tenant).QueryRow(func(row pgx.Row) error { return row.Scan(&users) })
			b.Queue(lockDocument, u.Tenant, u.ID)
			b.Queue(putMove, u.Tenant, u.ID, p.Zone)
			b.Queue(endMove, u.Tenant, u.ID, p.Zone)
			b.Queue(putDocument, u.Tenant, u.ID, p.Zone, p.Encode())
			err := tx.SendBatch(ctx, &b).Close()
			if most := s.opts.MaxUsers(u.Tenant); err == nil && added && most > 0 && users > most {
				return preferences.ErrTooManyUsers // the error rolls the transaction back
			}
			return err
		})
	})
}

// claimMove claims the oldest move that was never claimed. reclaimMove claims the one whose claim
// ended first.
const (
	claimMove = `
UPDATE waterclock_zone_moves m SET claim = $1, claimed_until = clock_timestamp() + $2::interval
FROM (
    SELECT tenant, user_id FROM waterclock_zone_moves
    WHERE claimed_until = '-infinity' AND NOT tenant = ANY($3) ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED
) AS oldest
WHERE m.tenant = oldest.tenant AND m.user_id = oldest.user_id
RETURNING m.tenant, m.user_id, m.timezone, m.seq`
	reclaimMove = `
UPDATE waterclock_zone_moves m SET claim = $1, claimed_until = clock_timestamp() + $2::interval
FROM (
    SELECT tenant, user_id FROM waterclock_zone_moves
    WHERE claimed_until < clock_timestamp() AND NOT tenant = ANY($3)
    ORDER BY claimed_until, seq LIMIT 1 FOR UPDATE SKIP LOCKED
) AS oldest
WHERE m.tenant = oldest.tenant AND m.user_id = oldest.user_id
RETURNING m.tenant, m.user_id, m.timezone, m.seq`
)

// Claim claims a move that has no valid claim, past those of some tenants.
func (s *Store) Claim(ctx context.Context, except []string, lease time.Duration) (
	m preferences.Move, ok bool, err error,
) {
	m.Claim = rand.Text()
	except = append([]string{}, except...) // not NULL, which no tenant differs from
	err = s.do(ctx, func(ctx context.Context) error {
		for _, query := range []string{claimMove, reclaimMove} {
			err := s.pool.QueryRow(ctx, query, m.Claim, lease, except).
				Scan(&m.User.Tenant, &m.User.ID, &m.Zone, &m.Seq)
			if !errors.Is(err, pgx.ErrNoRows) {
				ok = err == nil
				return err
			}
		}
		return nil
	})
	return m, ok, err
}

// Moves counts the moves in the outbox.
func (s *Store) Moves(ctx context.Context) (n int, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT count(*) FROM waterclock_zone_moves`).Scan(&n)
	})
	return n, err
}

const renewMove = `
UPDATE waterclock_zone_moves SET claimed_until = clock_timestamp() + $5::interval
WHERE tenant = $1 AND user_id = $2 AND claim = $3 AND seq = $4`

// Renew extends a claim.
func (s *Store) Renew(ctx context.Context, m preferences.Move, lease time.Duration) (ok bool, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		tag, err := s.pool.Exec(ctx, renewMove, m.User.Tenant, m.User.ID, m.Claim, m.Seq, lease)
		ok = err == nil && tag.RowsAffected() == 1
		return err
	})
	return ok, err
}

const (
	dropMove = `
DELETE FROM waterclock_zone_moves WHERE tenant = $1 AND user_id = $2 AND claim = $3 AND seq = $4`
	dropClaim = `
UPDATE waterclock_zone_moves SET claim = '', claimed_until = '-infinity'
WHERE tenant = $1 AND user_id = $2 AND claim = $3`
)

// Done ends a move and its claim.
func (s *Store) Done(ctx context.Context, m preferences.Move) error {
	return s.do(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(dropMove, m.User.Tenant, m.User.ID, m.Claim, m.Seq)
			b.Queue(dropClaim, m.User.Tenant, m.User.ID, m.Claim)
			return tx.SendBatch(ctx, &b).Close()
		})
	})
}
