// Package config turns flags, the environment, a YAML file and defaults into
// one typed Config.
//
// # Source of truth
//
// The table in table.go and table_*.go is: it names every setting once, with its type,
// default, bounds and meaning. Parsing, `waterclock config show`, `config
// validate`, the flags of `dev` and `serve`, and docs/operations/settings.md
// are all made from it. A setting that is not a row does not exist.
//
// # Promises
//
//   - Order: flag, environment, file, default; the first that has a value wins,
//     setting by setting. A list replaces a list, it is never appended to.
//   - The environment name of a.b_c is WATERCLOCK_A_B_C.
//   - Load reports every problem at once, each with the setting's name, where
//     its value came from, and what would be right.
//   - A secret never appears in a message or in Values; any secret a.b can be
//     given as a.b_file, the path of a file that holds it.
package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

//go:generate go run ./gen ../../docs/operations/settings.md

// Config is every setting with its value. The comments in table.go say what
// each means, its default and its bounds.
type Config struct {
	Brokers []string // Kafka bootstrap, host:port
	URL     string   // of the HTTP API, for the command line
	APIKey  string   // sent by the command line with HTTP requests
	Listen  string   // HTTP
	DataDir string
	Public  string // public_url
	Roles   []string
	Group   string

	MisfireAfter time.Duration
	Standby      int           // copies of each partition kept warm elsewhere
	HangAfter    time.Duration // hang_after
	Protocol     string        // group.protocol

	Kafka      Kafka
	Admin      Admin
	Internal   Internal
	Auth       Auth
	Audit      Audit
	HTTP       HTTP
	Console    Console
	Topics     Topics
	Turn       Turn
	Barrier    Barrier
	Clock      Clock
	CatchUp    CatchUp
	Store      Store
	Memory     Memory
	Disk       Disk
	Stop       Stop
	Dedup      Dedup
	Limits     Limits
	Events     Events
	Watermarks Watermarks
	History    History
	Cassandra  Cassandra
	Postgres   Postgres
	Webhook    Webhook
	Ack        Ack
	FCM        FCM
	APNs       APNs
	Twilio     Twilio
	Worker     Worker
	SMTP       SMTP
	Outbox     Outbox
	Templates  Templates
	Log        Log
	Tracing    Tracing
	Reload     Reload
	Reconcile  Reconcile
	Export     Export

	AutoCreate bool // channels.auto_create
	Channels   map[string]*Channel
	Tenants    map[string]*Tenant
	Endpoints  map[string]*Endpoint // by origin

	// Warnings are what is strange but no reason to stop.
	Warnings []string

	dev         bool
	sources     map[string]Source
	secretFiles map[string]string // path of the file a secret came from, by its key
	from        Options
	blank       bool // the settings file has no content
}

// Kafka is how to reach the brokers, and where the embedded one listens.
type Kafka struct {
	Listen string // dev only
	TLS    TLS
	SASL   SASL
}

// TLS is a client's side of a TLS connection.
type TLS struct {
	Enabled    bool
	CA         string // PEM file; "" means the system's roots
	Cert, Key  string // PEM files of a client certificate
	ServerName string // "" means the host dialled
}

// SASL is who we are to the brokers; Mechanism "" means nobody.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512
	User      string
	Password  string
}

// Reconcile is how often timers, states and rows are compared; 0 is never. Rows bounds the
// triggers of a partition whose rows are compared at a time; 0 is all.
type Reconcile struct {
	Interval time.Duration
	Rows     int
}

// Admin is the listener of /healthz, /readyz and /metrics beyond loopback.
type Admin struct{ Listen string }

// Internal is how instances ask each other.
type Internal struct {
	Listen    string
	Advertise string      // "" means Listen with the host's own name
	Secret    string      // or two, separated by a comma
	TLS       InternalTLS // all empty means certificates made from the secret
}

// InternalTLS are the files of certificates for instances.
type InternalTLS struct{ Cert, Key, CA string }

// Secrets are those of the setting; the first signs, each is accepted.
func (i Internal) Secrets() []string { return splitList(i.Secret) }

// Audit is what topic audit has.
type Audit struct{ Registers bool }

// Auth is who may use the HTTP API; all empty means nobody beyond loopback.
type Auth struct {
	KeysFile  string
	OIDC      OIDC
	AuditRate float64 // attempts told a second
}

// On says that callers of the API have to log in.
func (a Auth) On() bool { return a.KeysFile != "" || a.OIDC.Issuer != "" }

// HTTP is the TLS side of listen.
type HTTP struct {
	Cert, Key    string   // PEM files; empty speaks plain HTTP
	TLSElsewhere bool     // a proxy in front ends TLS
	Hosts        []string // names by which callers may address us
}

// Console is the web console beside the API.
type Console struct {
	Enabled bool
	Prefix  string // the path that a proxy in front takes away
}

// OIDC is an identity provider whose tokens we accept.
type OIDC struct {
	Issuer, Audience       string
	TenantClaim, RoleClaim string
	Algorithms             []string
}

// Topics is how the topics are named and made.
type Topics struct {
	Prefix      string
	Partitions  int
	Manage      bool
	Replication int // 0 means the broker's default.replication.factor
}

// Turn paces the engine's transactions; MinInterval 0 means adaptive.
type Turn struct{ MinInterval time.Duration }

// Watermarks says how often partitions say how far they have fired; Interval 0 means never.
type Watermarks struct{ Interval, IdleInterval time.Duration }

// Barrier bounds how long an open foreign transaction may hold firing back.
type Barrier struct{ MaxHold time.Duration }

// Clock is what a node's clock may be off.
type Clock struct{ MaxOffset time.Duration }

// CatchUp bounds what triggers under fire_all do after an outage.
type CatchUp struct {
	Rate float64 // occurrences a second; 0: no bound
	Max  int     // occurrences of one run
}

// Store is the local state of the partitions; Cache 0 means a share of the memory.
type Store struct {
	Cache Size
	WAL   bool
}

// Stop bounds how long the process takes to end.
type Stop struct{ Timeout time.Duration }

// Disk is what must be free where the stores are.
type Disk struct{ Reserve Size }

// Memory bounds what the process takes; 0 means what the container allows.
type Memory struct{ Limit Size }

// Dedup is how long and how many finished triggers are remembered.
type Dedup struct {
	Horizon         time.Duration
	MaxPerPartition int
}

// Limits bound what one register may ask for, and what a batch of them may take.
type Limits struct {
	Payload    Size
	BatchBytes Size
	MaxPending int           // of a partition; 0 means no bound
	Behind     time.Duration // of a tenant's triggers; 0 means no bound
	MinPeriod  time.Duration

	Calendars        int           // of a tenant's own
	CalendarInterval time.Duration // between a tenant's changes of them

	TenantChannels int // that one tenant's registers create

	Reads         int // costly reads at once
	ReadBudget    int // triggers and occurrences that one visits
	ReadTime      time.Duration
	PageBytes     Size // of one page of a list
	PagesInFlight Size // of all pages held at once
	Batches       int  // at once
	EventStreams  int  // at once
	BodyRate      Size // least bytes a second of a body
}

// Events is what the event log holds; Retention 0 means for ever.
type Events struct {
	Payload     bool
	Compression string // zstd or none
	Retention   time.Duration
}

// History is what the history's tables keep, whatever the event log does.
type History struct{ Retention time.Duration }

// Cassandra is where the history sink writes.
type Cassandra struct {
	Hosts          []string
	Keyspace       string
	Replication    Replication
	User, Password string
	TLS            TLS
}

// Postgres is where preferences are kept.
type Postgres struct{ URL string }

// Webhook is what the webhook worker may call, and signs with.
type Webhook struct {
	Allow       []string // origins
	Strict      bool     // no others
	Secret      string   // or two, separated by a comma
	Concurrency int
	PerEndpoint int // of these
	Waiting     int // more of one endpoint in memory
	Endpoints   int // that are remembered
	AnswerLimit Size
	Breaker     Breaker
}

// Breaker says when an endpoint is left alone.
type Breaker struct {
	Failures int // percent
	Requests int
	Window   time.Duration
	Open     time.Duration
	Returns  int // a second
}

// Worker is what all our channel workers share.
type Worker struct {
	Memory      int
	Concurrency int // messages of one channel at a time
}

// Endpoint is what is said of one origin that callbacks call.
type Endpoint struct {
	Headers []string // Name=env:VARIABLE, Name=file:PATH
	Rate    float64  // requests a second of one process; 0: no bound
	Paused  bool
}

// Log is what goes to standard error.
type Log struct {
	Level, Format string
	Requests      bool // a line for each HTTP request
}

// Tracing is where spans go.
type Tracing struct {
	Exporter string // none, otlp
	Endpoint string // "" means OTEL_EXPORTER_OTLP_ENDPOINT, or localhost:4318
	Ratio    float64
}

// Reload is how often files with credentials are looked at.
type Reload struct{ Interval time.Duration }

// Channel is the settings of one channel.
type Channel struct {
	Topic          string
	Partitioning   string // by_partition, by_key
	Receipts       bool
	ReceiptTimeout time.Duration
	Retry          []time.Duration // n entries are n + 1 attempts
	JitterLow      time.Duration
	HighLane       bool
	DedupWindow    time.Duration // within which a user gets no second message of a type; 0 is off
	MaxPerUser     []Cap         // what a user gets at most; empty is no bound
}

// Cap is so many in any stretch of time of that length.
type Cap struct {
	Most   int
	Within time.Duration
}

// Tenant is the limits of one tenant; 0 or empty means none of its own.
type Tenant struct {
	CallbackAllow []string // origins, beside webhook.allow
	Rate          float64  // commands a second
	MaxPending    int
	MaxUsers      int      // that it has preferences for
	Channels      []string // empty means all
	MinPeriod     time.Duration
	ReadRate      float64 // triggers and occurrences a second that reads visit
	WebhookSecret string  // in place of webhook.secret
}

// File is the settings file; "" for none.
func (c *Config) File() string { return c.from.File }

// Blank reports whether the settings file has no content. It may have been read while somebody wrote it.
func (c *Config) Blank() bool { return c.blank }

// Reread loads the settings again from where they came from, as they are now.
func (c *Config) Reread() (*Config, error) { return Load(c.from) }

// SecretFile is the file that a secret came from; "" for none.
func (c *Config) SecretFile(key string) string { return c.secretFiles[key] }

// ReadSecret is a secret as its file has it now; without a file, what it was.
func (c *Config) ReadSecret(key, was string) (string, error) {
	file := c.secretFiles[key]
	if file == "" {
		return was, nil
	}
	now, err := readSecret(file)
	if err != nil {
		return "", fmt.Errorf("%s_file: %w", key, err)
	}
	return now, nil
}

// readSecret is what a file has that nobody else may write, without the line end.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := OthersMayWrite(f); err != nil {
		return "", err
	}
	content, err := io.ReadAll(f)
	return strings.TrimRight(string(content), "\r\n"), err
}

// builtIn are the channels that always exist.
var builtIn = append([]string{"default"}, workerChannels...)

// BuiltInChannels are the channels that always exist.
func BuiltInChannels() []string { return slices.Clone(builtIn) }

// BuiltIn says whether a channel always exists.
func BuiltIn(channel string) bool { return slices.Contains(builtIn, channel) }

// Channel is the settings of a channel, configured or not.
func (c *Config) Channel(name string) Channel {
	ch, ok := c.Channels[name]
	if !ok {
		ch = c.defaultChannel(name)
	}
	out := *ch
	if out.Topic == "" {
		out.Topic = c.Topics.Prefix + "due." + name
	}
	return out
}

// HistoryGroup is the consumer group by which role history reads events.
func (c *Config) HistoryGroup() string { return c.Group + "-history" }

// LettersGroup is the consumer group by which role history reads dead letters.
func (c *Config) LettersGroup() string { return c.Group + "-history-letters" }

// ContentGroup is the consumer group by which role history reads the due topics. It answers
// no due event.
func (c *Config) ContentGroup() string { return c.Group + "-history-content" }

// Tenant is the limits of a tenant, configured or not.
func (c *Config) Tenant(name string) Tenant {
	t, ok := c.Tenants[name]
	if !ok {
		t = c.defaultTenant()
	}
	out := *t
	if out.MinPeriod == 0 {
		out.MinPeriod = c.Limits.MinPeriod
	}
	return out
}

// HasAuth says whether callers of the HTTP API have to log in.
func (c *Config) HasAuth() bool { return c.Auth.KeysFile != "" || c.Auth.OIDC.Issuer != "" }

// HasRole says whether a role was asked for.
func (c *Config) HasRole(role string) bool {
	for _, r := range c.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// Topic is the full name of one of our topics: Topic("commands").
func (c *Config) Topic(name string) string { return c.Topics.Prefix + name }

// EnvName is the environment variable of a setting: WATERCLOCK_A_B_C of a.b_c.
// A character that no variable may have ('-' in a channel's name) becomes '_'.
func EnvName(key string) string {
	return envPrefix + strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToUpper(key))
}

// FlagName is the flag of a setting: kafka-listen of kafka.listen.
func FlagName(key string) string { return strings.NewReplacer(".", "-", "_", "-").Replace(key) }

const envPrefix = "WATERCLOCK_"
