package cassandra

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/sinks"
)

// Options configure a store.
type Options struct {
	// Hosts are the contact points, host or host:port; one port for all.
	// Required.
	Hosts []string

	// Keyspace is where the tables are. Default waterclock.
	Keyspace string

	// Replication is used only when Migrate creates the keyspace. An existing keyspace belongs to
	// its operator. Default a factor of 1.
	Replication Replication

	// LocalDC is the data centre to use, with consistency LOCAL_QUORUM. Default: that of the
	// first node reached, which is right if there is only one.
	LocalDC string

	// Username and Password are the credentials. Empty means no authentication. Store.SetPassword
	// replaces the password.
	Username, Password string
	rotated            *atomic.Pointer[string] // nil: Password

	// TLS encrypts the connections; nil means plain text. The server's certificate is checked
	// against its host name unless the configuration says otherwise.
	TLS *tls.Config

	// Topic is the key of the rows of table progress. Default waterclock.events.
	Topic string

	// DeadLetters is the key of the rows of table progress for topic dead-letter. Default
	// waterclock.dead-letter.
	DeadLetters string

	// Retention is how long a row is kept after its event. Default 90 days, at most
	// sinks.MaxRetention. Rows cannot expire later than 2037, because of Cassandra's format.
	Retention time.Duration

	// Concurrency bounds the concurrent writes. Default 128; at most 4,096.
	Concurrency int

	// Timeout bounds one statement. Default 5 s. It must be longer than the server's own time-out
	// (2 s), so that its answer arrives.
	Timeout time.Duration

	// RecreateAfter is how long a session may be without a success before it is replaced. Default
	// 30 s.
	RecreateAfter time.Duration

	// Migrate applies missing migrations whenever a connection is made. Otherwise a schema that
	// is behind is refused until it is migrated.
	Migrate bool

	// Logger logs connections and migrations. Default: none.
	Logger *slog.Logger

	// Now is for tests; default time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	def(&o.Keyspace, "waterclock")
	def(&o.Topic, "waterclock.events")
	def(&o.DeadLetters, "waterclock.dead-letter")
	def(&o.Retention, 90*24*time.Hour)
	def(&o.Concurrency, 128)
	def(&o.Timeout, 5*time.Second)
	def(&o.RecreateAfter, 30*time.Second)
	if o.Replication.isZero() {
		o.Replication.Factor = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// The name is used unquoted, and Cassandra would convert it to lower case.
var keyspaceName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,47}$`)

// Validate joins every problem into one error.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(o.Hosts) == 0 {
		bad("cassandra.hosts: missing")
	}
	if _, _, err := splitHosts(o.Hosts); err != nil {
		bad("cassandra.hosts: %w", err)
	}
	if !keyspaceName.MatchString(o.Keyspace) {
		bad("cassandra.keyspace: %q: want a lower-case letter, then up to 47 letters, digits, underscores", o.Keyspace)
	}
	if err := o.Replication.Validate(); err != nil {
		bad("cassandra.replication: %w", err)
	}
	if o.Retention < time.Second || o.Retention > sinks.MaxRetention {
		bad("Retention: %s is not within 1s and %s", o.Retention, sinks.MaxRetention)
	}
	if o.Concurrency < 1 || o.Concurrency > 4096 {
		bad("Concurrency: %d is not within 1 and 4,096", o.Concurrency)
	}
	if o.Timeout < 0 || o.RecreateAfter < 0 {
		bad("Timeout, RecreateAfter: must not be negative")
	}
	if o.Password != "" && o.Username == "" {
		bad("Password: without a Username")
	}
	return errors.Join(errs...)
}
