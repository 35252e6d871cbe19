package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPrecedence(t *testing.T) {
	file := write(t, "w.yaml", "group: from-file\ndedup: {horizon: 2h}\n")
	env := []string{"WATERCLOCK_GROUP=from-env", "PATH=/bin"}
	flags := map[string]string{"group": "from-flag"}
	for _, row := range []struct {
		name   string
		o      Options
		want   string
		source string
	}{
		{"nothing says so: the default", Options{}, "waterclock", "default"},
		{"file over default", Options{File: file}, "from-file", "file " + file},
		{"environment over file", Options{File: file, Env: env}, "from-env", "env WATERCLOCK_GROUP"},
		{"flag over environment", Options{File: file, Env: env, Flags: flags}, "from-flag", "flag --group"},
		{"flag over default", Options{Flags: flags}, "from-flag", "flag --group"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, err := Load(row.o)
			if err != nil {
				t.Fatal(err)
			}
			if c.Group != row.want || c.Source("group").String() != row.source {
				t.Errorf("group is %q from %q, want %q from %q", c.Group, c.Source("group"), row.want, row.source)
			}
		})
	}
	c, err := Load(Options{File: file, Env: env})
	if err != nil || c.Dedup.Horizon != 2*time.Hour {
		t.Errorf("horizon is %v (%v): a stronger source of another setting must not hide the file", c.Dedup.Horizon,
			err)
	}
}

// sample is a value of each setting that is not its default.
func sample(s *Setting) string {
	switch {
	case s.Key == "roles":
		return "history"
	case s.Key == "kafka.sasl.mechanism":
		return "SCRAM-SHA-512"
	case len(s.OneOf) > 0:
		return s.OneOf[len(s.OneOf)-1]
	}
	switch s.scratch().(type) {
	case *bool:
		return fmt.Sprint(s.Default != "true")
	case *int, *float64:
		return "7"
	case *Size:
		return "512KiB"
	case *time.Duration, *[]time.Duration:
		return "9s"
	case *Replication:
		return "dc1=3,dc2=2"
	case *[]Cap:
		return "5/h,20/d"
	case *[]string:
		return "a:1,b:2"
	}
	return "text"
}

// Every row can be set by its environment name, lands where the row says, and
// is said to come from there. The contract's rule makes the name.
func TestEveryEnvironmentName(t *testing.T) {
	for _, s := range Settings() {
		key := strings.Replace(s.Key, namePart, "orders", 1)
		t.Run(key, func(t *testing.T) {
			variable := "WATERCLOCK_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
			if EnvName(key) != variable {
				t.Fatalf("EnvName is %s, want %s", EnvName(key), variable)
			}
			text := sample(s)
			// alone it may miss its companions, or be out of bounds
			c, _ := Load(Options{Env: []string{variable + "=" + text}})
			if c.Source(key).Kind != "env" {
				t.Fatalf("source is %v; warnings %v", c.Source(key), c.Warnings)
			}
			_, name := find(key)
			want, got := s.scratch(), s.into(c, name)
			if err := parse(want, text); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("value is %v, want %v", format(got), format(want))
			}
		})
	}
}

// The contract fixes these; a row that is lost or renamed breaks users.
func TestContractNames(t *testing.T) {
	for key, def := range map[string]string{
		"brokers": "127.0.0.1:9092", "listen": "127.0.0.1:8080", "kafka.listen": "127.0.0.1:9092", "admin.listen": "",
		"data_dir": "./waterclock-data", "topics.prefix": "waterclock.", "topics.partitions": "16",
		"turn.min_interval": "adaptive", "topics.manage": "true", "group": "waterclock", "cassandra.hosts": "",
		"cassandra.keyspace": "waterclock", "cassandra.replication": "1", "postgres.url": "", "webhook.allow": "",
		"webhook.strict": "false",
		"webhook.secret": "", "dedup.horizon": "24h", "dedup.max_per_partition": "5000000", "misfire_after": "60s",
		"limits.payload": "4KiB", "limits.min_period": "1m", "barrier.max_hold": "10s", "clock.max_offset": "30s",
		"events.payload": "true", "events.compression": "zstd",
		"watermarks.interval": "1s", "watermarks.idle_interval": "5s",
		"channels.auto_create": "true", "log.level": "info", "log.format": "text",
		"tenants.<name>.callback_allow": "", "tenants.<name>.rate": "unlimited",
		"tenants.<name>.max_pending": "unlimited",
		"tenants.<name>.channels":    "", "tenants.<name>.min_period": "inherit",
		"channels.<name>.topic": "", "channels.<name>.partitioning": "by_partition",
		"channels.<name>.receipts":        "false",
		"channels.<name>.receipt_timeout": "1h", "channels.<name>.retry": "10s,30s,2m,10m,30m",
		"channels.<name>.jitter_low": "0s", "channels.<name>.high_lane": "false",
		"channels.<name>.dedup_window": "0s", "channels.<name>.max_per_user": "",
	} {
		if s, _ := find(key); s == nil || s.Default != def {
			t.Errorf("%s: row %+v, want default %q", key, s, def)
		}
	}
}

func TestDevDefaults(t *testing.T) {
	c, err := Load(Options{Dev: true})
	if err != nil {
		t.Fatal(err)
	}
	if c.Topics.Partitions != 4 || !c.HasRole("history") {
		t.Errorf("partitions %d, roles %v", c.Topics.Partitions, c.Roles)
	}
	c, err = Load(Options{Dev: true, Flags: map[string]string{"topics.partitions": "8"}})
	if err != nil || c.Topics.Partitions != 8 {
		t.Errorf("partitions %d, %v; want the flag's 8", c.Topics.Partitions, err)
	}
}

func TestChannelsAndTenants(t *testing.T) {
	file := write(t, "w.yaml", `
topics.prefix: acme.
channels:
  auto_create: false
  my-orders: {receipts: true, retry: [1s, 500ms]}
  a.b: {topic: elsewhere}
tenants:
  acme: {rate: 2.5, channels: [push, sms], callback_allow: "https://a.example"}
cassandra:
  replication: {dc1: 3, dc2: 2}
`)
	c, err := Load(Options{File: file, Env: []string{
		"WATERCLOCK_CHANNELS_MY_ORDERS_RECEIPT_TIMEOUT=2m",
		"WATERCLOCK_CHANNELS_NEW_TOPIC=t",
	}})
	if err != nil {
		t.Fatal(err)
	}
	ladder := []time.Duration{10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}
	for name, want := range map[string]Channel{
		"my-orders": {
			Topic: "acme.due.my-orders", Partitioning: "by_partition", Receipts: true, ReceiptTimeout: 2 * time.Minute,
			Retry: []time.Duration{time.Second, 500 * time.Millisecond},
		},
		"a.b": {Topic: "elsewhere", Partitioning: "by_partition", ReceiptTimeout: time.Hour, Retry: ladder},
		"new": {Topic: "t", Partitioning: "by_partition", ReceiptTimeout: time.Hour, Retry: ladder},
		"webhook": {
			Topic: "acme.due.webhook", Partitioning: "by_partition", Receipts: true, ReceiptTimeout: time.Hour,
			Retry: ladder, HighLane: true,
		},
	} {
		if got := c.Channel(name); !reflect.DeepEqual(got, want) {
			t.Errorf("channel %s is %+v, want %+v", name, got, want)
		}
	}
	want := Tenant{
		Rate: 2.5, Channels: []string{"push", "sms"}, CallbackAllow: []string{"https://a.example"},
		MinPeriod: time.Minute, ReadRate: 100_000, MaxUsers: 1_000_000,
	}
	if got := c.Tenant("acme"); !reflect.DeepEqual(got, want) {
		t.Errorf("tenant is %+v, want %+v", got, want)
	}
	if got := c.Tenant("other"); got.MinPeriod != time.Minute || got.Rate != 0 {
		t.Errorf("tenant without settings is %+v", got)
	}
	if c.AutoCreate || c.Cassandra.Replication.String() != "dc1=3,dc2=2" {
		t.Errorf("auto_create %v, replication %v", c.AutoCreate, c.Cassandra.Replication)
	}
}

// Every register asks for a channel. What is not configured is parsed once, not each time:
// a flood of registers allocated twice as much.
func TestDefaultsOfChannelsAreParsedOnce(t *testing.T) {
	for _, dev := range []bool{false, true} {
		c := &Config{dev: dev}
		c.Topics.Prefix = "acme."
		for _, name := range append(BuiltInChannels(), "orders", "x") {
			fresh := &Config{dev: dev}
			fresh.fillNamed("channels.", name)
			want := *fresh.channel(name)
			want.Topic = "acme.due." + name
			if got := c.Channel(name); !reflect.DeepEqual(got, want) {
				t.Errorf("channel %s is %+v, want %+v", name, got, want)
			}
			if n := testing.AllocsPerRun(100, func() { c.Channel(name) }); n > 4 {
				t.Errorf("channel %s takes %v allocations", name, n)
			}
		}
	}
	for _, s := range rows { // the names that may have defaults of their own
		for name := range s.built {
			if strings.HasPrefix(s.Key, "channels.") && !BuiltIn(name) {
				t.Errorf("%s has a default for %s, which is not built in", s.Key, name)
			}
		}
	}
}

func TestProblems(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, row := range []struct {
		name, yaml string
		want       []string
	}{
		{"unknown key", "topics: {partitons: 4}", []string{"topics.partitons", "did you mean topics.partitions?"}},
		{"dash for underscore", "data-dir: /x", []string{"did you mean data_dir?"}},
		{"right word, wrong place", "kafka: {brokers: a:1}", []string{"did you mean brokers?"}},
		{"unknown key of a channel", "channels: {x: {reciepts: true}}", []string{"did you mean channels.x.receipts?"}},
		{"nothing near", "zzzzzzzz: 1", []string{"is not a setting", "config show"}},
		{
			"several at once", "listen: x\nlog: {level: loud}\nmisfire_after: 1y",
			[]string{"listen (file", "loud", "1y", "not a duration"},
		},
		{"below bound", "topics: {partitions: 0}", []string{"below the least allowed, 1"}},
		{"above bound", "limits: {payload: 1MiB}", []string{"1MiB is above the most allowed, 512KiB"}},
		{"each of a list", "channels: {x: {retry: [1s, 8d]}}", []string{"above the most allowed, 7d"}},
		{"a cap without a time", "channels: {sms: {max_per_user: 5}}", []string{"\"5\" is not a cap", "5/h"}},
		{"a cap of a strange unit", "channels: {sms: {max_per_user: 5/y}}", []string{"\"5/y\" is not a cap"}},
		{"a cap without a unit", "channels: {sms: {max_per_user: 5/30}}", []string{"5/30s"}},
		{"a cap of nothing", "channels: {sms: {max_per_user: 0/h}}", []string{"at least 1"}},
		{"a large cap", "channels: {sms: {max_per_user: 1001/h}}", []string{"most allowed, 1000"}},
		{"a long cap", "channels: {sms: {max_per_user: [5/h, 9/31d]}}", []string{"9/31d", "1s to 30d"}},
		{"many caps", "channels: {sms: {max_per_user: '1/s,2/m,3/h,4/d,5/w,6/2w'}}", []string{"6 caps"}},
		{"a long window", "channels: {sms: {dedup_window: 31d}}", []string{"above the most allowed, 30d"}},
		{
			"limits of a team's channel", "channels: {orders: {dedup_window: 1h, max_per_user: 5/h}}",
			[]string{"channels.orders.dedup_window", "channels.orders.max_per_user", "Waterclock has no worker"},
		},
		{"no boolean", "topics: {manage: perhaps}", []string{"neither true nor false"}},
		{"unknown role", "roles: [engine, histroy]", []string{"did you mean history?"}},
		{"open to all", "listen: 0.0.0.0:8080", []string{"auth.keys_file"}},
		{"any host", "listen: :8080", []string{"auth.keys_file"}},
		{"internal without secret", "internal: {listen: 10.0.0.1:7000}", []string{"internal.secret"}},
		{"short secret", "internal: {secret: abc}", []string{"shorter than 16"}},
		{
			"one short secret of two", "internal: {secret: \"abcdefghijklmnopqrstuvwxyz,abc\"}",
			[]string{"shorter than 16"},
		},
		{
			"three secrets", "internal: {secret: \"0123456789abcdef,0123456789abcdef,0123456789abcdef\"}",
			[]string{"at most two"},
		},
		{
			"unencrypted", "listen: 0.0.0.0:8080\nauth: {keys_file: " + write(t, "k", "") + "}",
			[]string{"listen", "http.tls.cert", "http.tls_elsewhere"},
		},
		{
			"Kafka without a log-in", "kafka: {listen: 0.0.0.0:9092}",
			[]string{"kafka.listen", "no log-in", "SSH tunnel", "HTTP API"},
		},
		{"Kafka without a log-in, any host", "kafka: {listen: \":9092\"}", []string{"no log-in"}},
		{"Kafka without a log-in, by name", "kafka: {listen: host.example:9092}", []string{"no log-in"}},
		{"Kafka without a log-in, v6", "kafka: {listen: \"[::]:9092\"}", []string{"no log-in"}},
		{"half a certificate", "internal: {tls: {cert: " + missing + "}}", []string{"set both or neither"}},
		{"an authority alone", "internal: {tls: {ca: " + missing + "}}", []string{"internal.tls.ca", "without"}},
		{
			"half a certificate of listen", "http: {tls: {cert: " + missing + "}}",
			[]string{"needs http.tls.key"},
		},
		{
			"issuer in the clear", "auth: {oidc: {issuer: \"http://id.example\", audience: a}}",
			[]string{"plain http", "https"},
		},
		{"no issuer", "auth: {oidc: {issuer: id.example, audience: a}}", []string{"is not a URL"}},
		{
			"issuer with a user", "auth: {oidc: {issuer: \"https://u:p@id.example\", audience: a}}",
			[]string{"has user info"},
		},
		{"mechanism without user", "kafka: {sasl: {mechanism: PLAIN}}", []string{"kafka.sasl.user"}},
		{"user without mechanism", "kafka: {sasl: {user: a, password: b}}", []string{"kafka.sasl.mechanism: is unset"}},
		{"TLS settings without TLS", "kafka: {tls: {server_name: a}}", []string{"kafka.tls.enabled"}},
		{
			"certificate without key", "kafka: {tls: {enabled: true, cert: " + missing + "}}",
			[]string{"set both or neither", "cannot be read"},
		},
		{
			"a lane for a channel", "channels: {sms.high: {receipts: true}}",
			[]string{"channels.sms.high: \"sms.high\" is not a channel: it ends in .high"},
		},
		{"bad channel", "channels: {Orders: {receipts: true}}", []string{`"Orders" is not a channel`}},
		{
			"two channels, one topic", "channels: {a: {topic: t}, b: {topic: t}}",
			[]string{"t is also the topic of channel a"},
		},
		{"the engine's topic", "channels: {a: {topic: waterclock.state}}", []string{"the engine's own topic"}},
		{"not an origin", "webhook: {allow: https://a.example/path}", []string{"is not an origin"}},
		{"origin that is a number", "webhook: {allow: 'http://127.1'}", []string{"webhook.allow", "is not an origin"}},
		{"origin with a wild card", "webhook: {allow: 'https://*.a.example'}", []string{"is not an origin"}},
		{"origin with user", "tenants: {a: {callback_allow: https://u:p@a.example}}", []string{"is not an origin"}},
		{"bad signing key", "webhook: {secret: whsec_***}", []string{"is not a key", "base64"}},
		{"secret twice", "webhook: {secret: a, secret_file: " + write(t, "s", "b") + "}", []string{"given twice"}},
		{
			"secret file missing", "webhook: {secret_file: " + missing + "}",
			[]string{"webhook.secret_file (file", "cannot be read"},
		},
		{"map for a text", "group: {a: {b: 1}}", []string{"group.a.b"}},
		{"no YAML", "a: [", []string{"config (file", "cannot be read"}},
		{"replication", "cassandra: {replication: many}", []string{"is not a replication"}},
		{"audience", "auth: {oidc: {issuer: https://i}}", []string{"auth.oidc.audience"}},
		{"collector", "tracing: {endpoint: collector:4318}", []string{"tracing.endpoint"}},
		{"ratio", "tracing: {ratio: 2}", []string{"tracing.ratio"}},
		{
			"algorithm", "auth: {oidc: {issuer: https://i, audience: a, algorithms: [RS256, HS256]}}",
			[]string{"auth.oidc.algorithms", "HS256"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := Load(Options{File: write(t, "w.yaml", row.yaml)})
			if err == nil {
				t.Fatal("no problem found")
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
		})
	}
}

func TestNoFile(t *testing.T) {
	_, err := Load(Options{File: filepath.Join(t.TempDir(), "none.yaml")})
	if err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("got %v, want the missing file's name", err)
	}
}

// What Kubernetes adds for a service named waterclock is silent; a slip in a
// name of ours is a warning, never an error.
func TestForeignEnvironment(t *testing.T) {
	c, err := Load(Options{Env: []string{
		"WATERCLOCK_SERVICE_HOST=10.0.0.1", "WATERCLOCK_PORT=tcp://10.0.0.1:80",
		"WATERCLOCK_PORT_8080_TCP_ADDR=10.0.0.1", "WATERCLOCK_SERVICE_PORT_HTTP=80", "WATERCLOCK_CONFIG=x",
		"WATERCLOCK_BROKER=a:1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"environment variable WATERCLOCK_BROKER is not a setting; did you mean WATERCLOCK_BROKERS?"}
	if !reflect.DeepEqual(c.Warnings, want) {
		t.Errorf("warnings %q, want %q", c.Warnings, want)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	passwords := write(t, "p", "hunter2\n")
	c, err := Load(Options{Env: []string{
		"WATERCLOCK_KAFKA_SASL_PASSWORD_FILE=" + passwords, "WATERCLOCK_KAFKA_SASL_USER=ada",
		"WATERCLOCK_KAFKA_SASL_MECHANISM=PLAIN",
		"WATERCLOCK_POSTGRES_URL=postgres://ada:hunter2@db.example/w?password=hunter2",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Kafka.SASL.Password != "hunter2" {
		t.Errorf("password is %q, want the file's without its line end", c.Kafka.SASL.Password)
	}
	shown := fmt.Sprint(c.Values())
	if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "db.example") {
		t.Errorf("shown: %s", shown)
	}
	_, err = Load(Options{Env: []string{"WATERCLOCK_INTERNAL_SECRET=hunter2"}})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want a problem without the secret", err)
	}
}

// An address that is no secret as such may have one in it.
func TestAddressesAreMasked(t *testing.T) {
	for _, env := range [][]string{
		{"WATERCLOCK_TRACING_ENDPOINT=http://ada:hunter2@collector.example:4318/v1/traces?key=hunter2"},
		{"WATERCLOCK_TRACING_ENDPOINT=http://ada:hunt/hunter2@collector.example:4318"},
		{"WATERCLOCK_URL=http://ada:hunter2@collector.example:8080"},
		{"WATERCLOCK_TRACING_ENDPOINT=ftp://ada:hunter2@collector.example"},
		{"WATERCLOCK_URL=ftp://ada:hunter2@collector.example?token=hunter2"},
		{"WATERCLOCK_AUTH_OIDC_ISSUER=ftp://ada:hunter2@collector.example", "WATERCLOCK_AUTH_OIDC_AUDIENCE=a"},
	} {
		c, err := Load(Options{Env: env})
		shown := fmt.Sprint(err, c.Values())
		if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "collector.example") {
			t.Errorf("%s shows %s", env, shown)
		}
	}
	const plain = "http://127.0.0.1:4318/v1"
	if got := Masked(plain); got != plain {
		t.Errorf("%s for an address without a secret", got)
	}
}

// Credentials that anybody on the machine can replace are refused, wherever they
// are named.
func TestFilesOthersMayWrite(t *testing.T) {
	open := write(t, "open", "acme 0123456789012345678901234567890123456789\n")
	for _, mode := range []os.FileMode{0o602, 0o646, 0o666, 0o600, 0o640, 0o664} {
		if err := os.Chmod(open, mode); err != nil {
			t.Fatal(err)
		}
		for _, yaml := range []string{"auth: {keys_file: " + open + "}", "internal: {secret_file: " + open + "}"} {
			_, err := Load(Options{File: write(t, "w.yaml", yaml)})
			if refused := err != nil && strings.Contains(err.Error(), "chmod o-w "+open); refused != (mode&2 != 0) {
				t.Errorf("mode %o, %s: %v", mode, yaml, err)
			}
		}
	}
	c, err := Load(Options{Env: []string{
		"WATERCLOCK_AUTH_KEYS_FILE=" + open, "WATERCLOCK_INTERNAL_SECRET_FILE=" + open,
	}})
	if got := c.CredentialFiles(); err != nil || len(got) != 2 {
		t.Errorf("files %v, error %v", got, err)
	}
}

// Values lists every plain setting, and what it says can be read back.
func TestValuesReadBack(t *testing.T) {
	c, err := Load(Options{Env: []string{"WATERCLOCK_CHANNELS_ORDERS_RECEIPTS=true", "WATERCLOCK_TENANTS_ACME_RATE=3"}})
	if err != nil {
		t.Fatal(err)
	}
	second := map[string]string{}
	for _, v := range c.Values() {
		if v.Value != "" {
			second[v.Key] = v.Value
		}
	}
	d, err := Load(Options{Flags: second})
	if err != nil {
		t.Fatal(err)
	}
	c.sources, d.sources = nil, nil
	if !reflect.DeepEqual(c, d) {
		t.Errorf("read back %+v, want %+v", d, c)
	}
}

func TestFlags(t *testing.T) {
	f := NewFlags()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.BindAll(fs)
	f.BindSet(fs)
	if err := fs.Parse([]string{
		"--kafka-listen", "127.0.0.1:1", "--topics-manage", "--set", "channels.x.receipts=true",
		"--roles=engine",
	}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"kafka.listen": "127.0.0.1:1", "topics.manage": "true", "channels.x.receipts": "true",
		"roles": "engine",
	}
	if got := f.Values(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := fs.Parse([]string{"--topics-partitions", "many"}); err == nil ||
		!strings.Contains(err.Error(), "not a whole number") {
		t.Errorf("got %v, want a usage error", err)
	}
	if fs.Lookup("webhook-secret") != nil {
		t.Error("a secret has a flag, which others could read in the process list")
	}
}

func TestSettingsPage(t *testing.T) {
	var want bytes.Buffer
	if err := WriteMarkdown(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/operations/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("docs/operations/settings.md is not what the table says: go generate ./internal/config")
	}
	for _, s := range Settings() {
		if !strings.Contains(string(got), "`"+s.Key+"`") || s.Doc == "" {
			t.Errorf("%s is not documented", s.Key)
		}
	}
}

func TestCheckServe(t *testing.T) {
	c, err := Load(Options{Flags: map[string]string{"roles": "history,push"}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.CheckServe()
	var ps Problems
	if !errors.As(err, &ps) || len(ps) != 2 {
		t.Errorf("got %v, want cassandra.hosts and postgres.url", err)
	}
	for url, want := range map[string]int{"": 2, "postgres://h/x": 0} {
		c, err := Load(Options{Flags: map[string]string{
			"roles": "webhook", "postgres.url": url, "channels.webhook.dedup_window": "1h",
			"channels.webhook.max_per_user": "5/h", "channels.sms.max_per_user": "5/h",
		}})
		if err != nil {
			t.Fatal(err)
		}
		ps = nil
		if err := c.CheckServe(); errors.As(err, &ps) != (want > 0) || len(ps) != want {
			t.Errorf("postgres.url %q: got %v, want %d problems", url, err, want)
		}
	}
}

func TestCaps(t *testing.T) {
	for text, want := range map[string]string{
		"5/h": "5/h", "5/h, 20/d": "5/h,20/d", "5/1h": "5/h", "100/2d": "100/2d", "3/90m": "3/1h30m", "7/1w": "7/w",
		"7/7d": "7/w", "1/60s": "1/m", "1/30s": "1/30s", "": "",
	} {
		c, err := Load(Options{Flags: map[string]string{"channels.sms.max_per_user": text}})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		caps := c.Channel("sms").MaxPerUser
		if got := format(&caps); got != want {
			t.Errorf("%q: read as %q, want %q", text, got, want)
		}
	}
}

func TestTopicNames(t *testing.T) {
	c, err := Load(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Topic("commands"); got != "waterclock.commands" {
		t.Errorf("got %s", got)
	}
}

// Signing keys and headers are references; what is wrong with one is said by
// name, and never shows the value.
func TestWebhookSettings(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	t.Setenv("HOOK_KEY", key)
	t.Setenv("HOOK_TOKEN", "Bearer x")
	token := write(t, "token", "Bearer y\n")
	file := write(t, "w.yaml", `
webhook: {secret: "env:HOOK_KEY,file:`+write(t, "key", key+"\n")+`"}
tenants: {acme: {webhook_secret: `+key+`}}
endpoints:
  https://hooks.example.com:
    rate: 2.5
    headers: {Authorization: "env:HOOK_TOKEN", X-Key: "file:`+token+`"}
  http://10.0.0.5:8080: {paused: true}
`)
	c, err := Load(Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if _, secrets, err := c.WebhookSecrets("other"); err != nil || !reflect.DeepEqual(secrets, []string{key, key}) {
		t.Errorf("%v, %v", secrets, err)
	}
	if setting, secrets, err := c.WebhookSecrets("acme"); err != nil || len(secrets) != 1 ||
		setting != "tenants.acme.webhook_secret" {
		t.Errorf("%s %v, %v", setting, secrets, err)
	}
	h, err := c.EndpointHeaders("https://hooks.example.com")
	if err != nil || h.Get("Authorization") != "Bearer x" || h.Get("X-Key") != "Bearer y" {
		t.Errorf("%v, %v", h, err)
	}
	if e := c.Endpoints["https://hooks.example.com"]; e.Rate != 2.5 || !c.Endpoints["http://10.0.0.5:8080"].Paused {
		t.Errorf("%+v", e)
	}
	rotated := write(t, "rotated", key+" , "+key+"\n")
	c.Webhook.Secret = "file:" + rotated
	if _, secrets, err := c.WebhookSecrets("other"); err != nil || !reflect.DeepEqual(secrets, []string{key, key}) {
		t.Errorf("a file with two keys: %v, %v", secrets, err)
	}
	c.Webhook.Secret = "env:HOOK_KEY,file:" + rotated
	if _, secrets, err := c.WebhookSecrets("other"); err == nil {
		t.Errorf("three keys in two places: %v", secrets)
	}
	c.Webhook.Secret = "file:" + write(t, "commas", " ,\n")
	if _, secrets, err := c.WebhookSecrets("other"); err == nil {
		t.Errorf("a file without a key signs nothing: %v", secrets)
	}
	c.Webhook.Secret = "file:" + rotated
	if files := c.WebhookFiles(); len(files) != 2 {
		t.Errorf("files to watch: %v", files)
	}
	for _, v := range c.Values() {
		if strings.Contains(v.Value, "MfKQ9r8") {
			t.Errorf("%s shows %s", v.Key, v.Value)
		}
	}

	t.Setenv("HOOK_EVIL", "a\r\nX-Trigger-Id: 1")
	for yaml, want := range map[string]string{
		"webhook: {secret: 'env:NOBODY_SET_THIS'}":                               "NOBODY_SET_THIS is unset",
		"webhook: {secret: 'file:/nowhere/at/all'}":                              "/nowhere/at/all",
		"webhook: {secret: marked-secret}":                                       "is not a key",
		"webhook: {secret: '" + key + "," + key + "," + key + "'}":               "at most two",
		"webhook: {secret: ','}":                                                 "is not a key",
		"tenants: {a: {webhook_secret: whsec_YQ==}}":                             "tenants.a.webhook_secret",
		"endpoints: {'https://a.example/path': {paused: true}}":                  "is not an origin",
		"endpoints: {'https://A.example': {paused: true}}":                       "is not an origin",
		"endpoints: {'ftp://a.example': {paused: true}}":                         "is not an origin",
		"endpoints: {'https://a.example': {headers: {Authorization: marked}}}":   "env:NAME or file:PATH",
		"endpoints: {'https://a.example': {headers: {Host: 'env:HOOK_TOKEN'}}}":  "set by the worker",
		"endpoints: {'https://a.example': {headers: {ce-id: 'env:HOOK_TOKEN'}}}": "set by the worker",
		"endpoints: {'https://a.example': {headers: {'X Y': 'env:HOOK_TOKEN'}}}": "is not a header name",
		"endpoints: {'https://a.example': {headers: {X-A: 'env:HOOK_EVIL'}}}":    "line end",
		"endpoints: {'https://a.example': {headers: {X-A: 'env:HOOK_NONE'}}}":    "HOOK_NONE is unset",
		"endpoints: {'https://a.example': {rate: -1}}":                           "rate",
	} {
		_, err := Load(Options{File: write(t, "bad.yaml", yaml)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "marked") {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}
