package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/internal/room"
	"github.com/waterclock/waterclock/preferences"
)

// Options configure a store.
type Options struct {
	Dir    string       // directory of the store; it is created if needed
	Logger *slog.Logger // gets Pebble's errors; nil: no log
	FS     vfs.FS       // for tests; nil: the operating system's
	NoRoom func(error)  // is called for each write that fails because the disk is full; the write waits. nil: no call

	// MaxUsers returns for how many users of a tenant Put accepts preferences; 0: no bound. nil:
	// no bound for any tenant.
	MaxUsers func(tenant string) int
}

// Store is a preferences.Store in a directory.
type Store struct {
	db      *pebble.DB
	serving atomic.Bool // it is open: writes that find no space wait (internal/room)

	open   sync.RWMutex // read lock: the database is in use; Close takes the write lock
	closed bool

	write  sync.Mutex // one change at a time
	seq    int64      // the last that was assigned
	claims map[preferences.User]claim

	erasing map[int64]claim  // by seq of the erasure
	erasers map[int64]string // tenants of erasures that are not done, by seq, as far as they were read

	maxUsers func(tenant string) int
	users    map[string]int // by tenant; only tenants that were counted (users.go)
}

var _ preferences.Store = (*Store)(nil)

// claim says who works on a move or an erasure.
type claim struct {
	id    string
	seq   int64
	until time.Time
}

// format is the number of the keyspace in doc.go.
const format = "1"

// cacheBytes and memtableBytes are small, because preferences are small.
const (
	cacheBytes    = 2 << 20
	memtableBytes = 1 << 20
)

// Open opens a store, or creates it.
func Open(o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.NoRoom == nil {
		o.NoRoom = func(error) {}
	}
	if o.MaxUsers == nil {
		o.MaxUsers = func(string) int { return 0 }
	}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref() // the database holds its own reference
	s := &Store{
		claims: map[preferences.User]claim{}, erasing: map[int64]claim{},
		erasers: map[int64]string{}, maxUsers: o.MaxUsers, users: map[string]int{},
	}
	db, err := pebble.Open(o.Dir, &pebble.Options{
		FS:    room.Wrap(o.FS, o.NoRoom, &s.serving),
		Cache: cache, MemTableSize: memtableBytes, MaxOpenFiles: 64, FormatMajorVersion: pebble.FormatNewest,
		Logger: quiet{o.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("open preferences in %s: %w", o.Dir, err)
	}
	s.db = db
	s.serving.Store(true)
	if err := s.begin(o.Dir); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// begin reads the format and the last seq, or initialises a new directory.
func (s *Store) begin(dir string) error {
	v, err := s.get("format")
	switch {
	case err != nil:
		return err
	case v == nil:
		return s.db.Set([]byte("format"), []byte(format), pebble.Sync)
	case string(v) != format:
		return fmt.Errorf("preferences in %s have format %q, and this binary knows %s: run a newer waterclock",
			dir, v, format)
	}
	if v, err = s.get("s"); err != nil || v == nil {
		return err
	}
	if len(v) != 8 {
		return fmt.Errorf("preferences in %s: the last seq has %d bytes", dir, len(v))
	}
	s.seq = int64(binary.BigEndian.Uint64(v))
	return nil
}

// get returns a copy of a value, or nil if there is none.
func (s *Store) get(key string) ([]byte, error) {
	v, closer, err := s.db.Get([]byte(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read preferences: %w", err)
	}
	defer closer.Close()
	return append([]byte{}, v...), nil
}

// errClosed is what every method returns after Close.
var errClosed = errors.New("the preference store is closed")

// enter holds the database open until leave is called.
func (s *Store) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.open.RLock()
	if s.closed {
		s.open.RUnlock()
		return nil, errClosed
	}
	return s.open.RUnlock, nil
}

// enterToWrite is like enter, and makes the caller the only writer.
func (s *Store) enterToWrite(ctx context.Context) (leave func(), err error) {
	out, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	s.write.Lock()
	return func() { s.write.Unlock(); out() }, nil
}

func userKey(table byte, u preferences.User) string { return string(table) + u.Tenant + "\x00" + u.ID }

func orderKey(seq int64) []byte { return binary.BigEndian.AppendUint64([]byte("o"), uint64(seq)) }

// Get reads the preferences of users.
func (s *Store) Get(ctx context.Context, users []preferences.User) ([]*preferences.Preferences, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([]*preferences.Preferences, len(users))
	var broken *preferences.UnreadableError
	for i, u := range users {
		out[i], err = s.preferences(u)
		if one, is := errors.AsType[*preferences.UnreadableError](err); is {
			broken = broken.Add(u, one.Err)
		} else if err != nil {
			return nil, err
		}
		e, ok, err := s.erasure(u)
		if err != nil {
			return nil, err
		}
		if ok && out[i] != nil {
			out[i].ErasedAt = e.At
		}
	}
	return out, broken.OrNil()
}

// preferences returns a user's preferences, or the zero value if there are none.
func (s *Store) preferences(u preferences.User) (*preferences.Preferences, error) {
	v, err := s.get(userKey('p', u))
	if err != nil {
		return nil, err
	}
	if v == nil {
		return &preferences.Preferences{}, nil
	}
	p, err := preferences.Parse(v)
	if err != nil {
		return nil, (*preferences.UnreadableError)(nil).Add(u, err)
	}
	return p, nil
}

// Put replaces a user's preferences, and writes a move if the zone is new.
func (s *Store) Put(ctx context.Context, u preferences.User, p *preferences.Preferences) error {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	added, err := s.admitUser(u)
	if err != nil {
		return err
	}
	zone, err := s.zoneOf(u)
	if err != nil {
		return err
	}
	b := s.db.NewBatch()
	defer b.Close()
	_ = b.Set([]byte(userKey('p', u)), p.Encode(), nil) // an error shows at the commit of the batch
	seq := s.seq
	if p.Zone != zone {
		if seq, err = s.putMove(b, u, p.Zone); err != nil {
			return err
		}
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("write preferences: %w", err)
	}
	s.seq = seq
	s.userAdded(u, added)
	return nil
}

// zoneOf returns a user's zone. It is "" if the document cannot be parsed. The next zone is then
// a move, which changes nothing if it is the old one.
func (s *Store) zoneOf(u preferences.User) (string, error) {
	p, err := s.preferences(u)
	if _, broken := errors.AsType[*preferences.UnreadableError](err); broken {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return p.Zone, nil
}

// putMove adds the move to a new zone to a batch. It replaces the user's last move.
func (s *Store) putMove(b *pebble.Batch, u preferences.User, zone string) (seq int64, err error) {
	last, err := s.move(u)
	if err != nil {
		return 0, err
	}
	dropMove(b, last)
	if zone == "" {
		return s.seq, nil
	}
	seq = s.seq + 1
	number := binary.BigEndian.AppendUint64(nil, uint64(seq))
	_ = b.Set([]byte(userKey('m', u)), append(number[:8:8], zone...), nil)
	_ = b.Set(orderKey(seq), []byte(userKey('p', u)[1:]), nil)
	_ = b.Set([]byte("s"), number, nil)
	return seq, nil
}

func dropMove(b *pebble.Batch, m preferences.Move) {
	if m.Seq != 0 {
		_ = b.Delete([]byte(userKey('m', m.User)), nil)
		_ = b.Delete(orderKey(m.Seq), nil)
	}
}

// move returns a user's move. Its Seq is 0 if there is none.
func (s *Store) move(u preferences.User) (preferences.Move, error) {
	v, err := s.get(userKey('m', u))
	if err != nil || len(v) < 8 {
		return preferences.Move{}, err
	}
	return preferences.Move{User: u, Zone: string(v[8:]), Seq: int64(binary.BigEndian.Uint64(v))}, nil
}

// Claim claims a move that has no valid claim, past those of some tenants.
func (s *Store) Claim(ctx context.Context, except []string, lease time.Duration) (
	m preferences.Move, ok bool, err error,
) {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return m, false, err
	}
	defer leave()
	now := time.Now()
	var until time.Time // when the earlier claim of m ended
	err = s.each("o", "p", func(_, v []byte) (bool, error) {
		tenant, id, _ := strings.Cut(string(v), "\x00")
		if slices.Contains(except, tenant) {
			return true, nil
		}
		u := preferences.User{Tenant: tenant, ID: id}
		c, tried := s.claims[u]
		if tried && (now.Before(c.until) || ok && !c.until.Before(until)) {
			return true, nil
		}
		found, err := s.move(u)
		if err != nil || found.Seq == 0 {
			return true, err
		}
		m, ok, until = found, true, c.until
		return tried, nil
	})
	if err != nil || !ok {
		return preferences.Move{}, false, err
	}
	m.Claim = strconv.FormatInt(now.UnixNano(), 36)
	s.claims[m.User] = claim{m.Claim, m.Seq, now.Add(lease)}
	return m, true, nil
}

// each calls f for the keys of a range in order, until f returns false or an error.
func (s *Store) each(from, to string, f func(k, v []byte) (more bool, err error)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte(from), UpperBound: []byte(to)})
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	defer it.Close()
	for valid := it.First(); valid; valid = it.Next() {
		if more, err := f(it.Key(), it.Value()); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

// Moves counts the moves in the outbox.
func (s *Store) Moves(ctx context.Context) (n int, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	err = s.each("o", "p", func(_, _ []byte) (bool, error) { n++; return true, nil })
	return n, err
}

// holds reports whether the caller's claim of a move is valid, and whether the move is still the
// newest. The caller holds s.write.
func (s *Store) holds(m preferences.Move) (claimed, newest bool, err error) {
	now, err := s.move(m.User)
	return s.claims[m.User].id == m.Claim, now.Seq == m.Seq, err
}

// Renew extends a claim.
func (s *Store) Renew(ctx context.Context, m preferences.Move, lease time.Duration) (bool, error) {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	claimed, newest, err := s.holds(m)
	if !claimed || !newest || err != nil {
		return false, err
	}
	s.claims[m.User] = claim{m.Claim, m.Seq, time.Now().Add(lease)}
	return true, nil
}

// Done ends a move and its claim.
func (s *Store) Done(ctx context.Context, m preferences.Move) error {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	claimed, newest, err := s.holds(m)
	if !claimed || err != nil {
		return err
	}
	if newest {
		b := s.db.NewBatch()
		defer b.Close()
		dropMove(b, m)
		if err := b.Commit(pebble.Sync); err != nil {
			return fmt.Errorf("end a move: %w", err)
		}
	}
	delete(s.claims, m.User)
	return nil
}

// Checkpoint writes a copy of the store into a new directory.
func (s *Store) Checkpoint(dir string) error {
	leave, err := s.enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// Close waits for running calls. A second Close does nothing.
func (s *Store) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.db.Close()
}

// quiet logs Pebble's errors and drops its other messages.
type quiet struct{ log *slog.Logger }

func (q quiet) Infof(string, ...any) {}

func (q quiet) Errorf(format string, args ...any) {
	q.log.Error("preferences: " + fmt.Sprintf(format, args...))
}

func (q quiet) Fatalf(format string, args ...any) {
	panic("preferences: " + fmt.Sprintf(format, args...))
}
