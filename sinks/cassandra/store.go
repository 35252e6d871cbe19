package cassandra

import (
	"context"
	"errors"
	"fmt"

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

// New connects to nothing yet: the first call does, and whether Cassandra is
// there today is no reason not to start. Ping asks.
func New(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	s := &Store{opts: opts.withDefaults()}
	s.link = link[*gocql.Session]{create: s.connect, after: s.opts.RecreateAfter, now: s.opts.Now, log: s.opts.Logger}
	return s, nil
}

// connect makes a session on a keyspace whose schema we know.
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
	return session, nil
}

// Ping says whether the keyspace answers and its schema is ours.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Progress(ctx)
	return err
}

// OwnsOffsets is false: the consumer group's offsets are of record.
func (s *Store) OwnsOffsets() bool { return false }

// Close ends the session; running calls fail.
func (s *Store) Close() error {
	s.link.close()
	return nil
}

// do runs one call with the session and watches over the session's health.
func (s *Store) do(ctx context.Context, verb string, call func(*gocql.Session) error) error {
	session, err := s.link.get(ctx)
	if err == nil {
		err = call(session)
		if !errors.Is(ctx.Err(), context.Canceled) { // else it says nothing about Cassandra
			s.link.report(err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, unavailable(err))
	}
	return nil
}
