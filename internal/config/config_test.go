package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
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

// Whatever secrets settings have, Values shows none of them.
func TestEverySecretIsMasked(t *testing.T) {
	n := 0
	for _, s := range rows {
		if !s.Secret {
			continue
		}
		n++
		for _, secret := range []string{"hunter2", "postgres://ada:hunter2@db.example/w?password=hunter2"} {
			c, err := Load(Options{})
			if err != nil {
				t.Fatal(err)
			}
			*s.into(c, "acme").(*string) = secret
			if got := fmt.Sprint(c.Values()); strings.Contains(got, "hunter2") || !strings.Contains(got, masked) {
				t.Errorf("%s is shown: %s", s.Key, got)
			}
		}
	}
	if n < 12 {
		t.Errorf("only %d settings are secrets", n)
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
	c.sources, d.sources, c.from, d.from = nil, nil, Options{}, Options{}
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

// The page for operators has every role.
func TestRolesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations/running.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Roles\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := regexp.MustCompile("(?m)^\\| `[^|]*").FindAllString(table, -1)
	documented := strings.Join(rows, " ")
	for _, s := range Settings() {
		for _, role := range s.OneOf {
			if s.Key == "roles" && !strings.Contains(documented, "`"+role+"`") {
				t.Errorf("role %s is not in docs/operations/running.md", role)
			}
		}
	}
	if len(rows) < 6 {
		t.Errorf("the table has only these rows: %q", rows)
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
