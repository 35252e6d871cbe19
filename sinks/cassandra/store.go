package cassandra

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
)

// Store is a sinks.History in a Cassandra keyspace.
type Store struct {
	opts Options
	link link[*gocql.Session]

	newest newest // event_us that this process has applied, by partition
}

var _ sinks.History = (*Store)(nil)

// New does not connect; the first call does. So a process can start while Cassandra is down. Ping
// checks the connection.
func New(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Store{opts: opts.withDefaults()}
	s.opts.rotated = &atomic.Pointer[string]{}
	s.opts.rotated.Store(&opts.Password)
	s.link = link[*gocql.Session]{create: s.connect, after: s.opts.RecreateAfter, now: s.opts.Now, log: s.opts.Logger}
	return s, nil
}

// connect makes a session on a keyspace that has the expected schema.
func (s *Store) connect(ctx context.Context) (*gocql.Session, error) {
	if s.opts.Migrate {
		if _, err := Migrate(ctx, s.opts); err != nil {
			return nil, err
		}
	}
	c, err := cluster(s.opts)
	if err != nil {
		return nil, err
	}
	c.Keyspace = s.opts.Keyspace
	session, err := c.CreateSession()
	if err != nil {
		return nil, err
	}
	if err := checkSchema(ctx, session, s.opts.Keyspace); err != nil {
		session.Close()
		return nil, err
	}
	s.opts.Logger.Info("history: connected to Cassandra", "keyspace", s.opts.Keyspace)
	if oneCopyInMemory(ctx, session, s.opts.Keyspace) {
		s.opts.Logger.Warn("history: Cassandra keeps one copy of a row and acknowledges it before it is on the disk: "+
			"a crash takes the last seconds, and nothing notices. Set commitlog_sync: batch in its cassandra.yaml, "+
			"or keep three copies", "keyspace", s.opts.Keyspace)
	}
	return session, nil
}

// SetPassword replaces the password, for connections that are opened from now on. Open ones stay open.
func (s *Store) SetPassword(password string) { s.opts.rotated.Store(&password) }

// Ping reports whether the keyspace answers and has the expected schema.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Progress(ctx)
	return err
}

// OwnsOffsets returns false: the projector resumes from the consumer group's offsets.
func (s *Store) OwnsOffsets() bool { return false }

// Close ends the session. Running calls fail.
func (s *Store) Close() error {
	s.link.close()
	return nil
}

// do runs one call with the session, and reports its result to link.
func (s *Store) do(ctx context.Context, verb string, call func(*gocql.Session) error) error {
	session, err := s.link.get(ctx)
	if err == nil {
		err = call(session)
		if !errors.Is(ctx.Err(), context.Canceled) { // a cancelled call shows nothing about Cassandra
			s.link.report(err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, unavailable(err))
	}
	return nil
}
