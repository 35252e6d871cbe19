package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

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
		{"0 for unlimited", "tenants: {a: {rate: 0}}", []string{"tenants.a.rate", "below the least allowed, 0.001"}},
		{
			"digits in groups", "topics: {partitions: 1_000}",
			[]string{"topics.partitions", `"1_000" is not a whole number`},
		},
		{"an exponent", "topics: {partitions: 1e2}", []string{`"1e2" is not a whole number`}},
		{"given in both spellings", "log: {level: warn}\nlog.level: debug", []string{"log.level", "given twice"}},
		{"given twice in a map", "tenants: {a: {rate: 1, rate: 2}}", []string{"tenants.a.rate", "given twice"}},
		{"no map", "- listen", []string{"config (file", "no map of settings"}},
		{"a map in itself", "kafka: &a {b: *a}", []string{"config (file", "nested over 32 deep"}},
		{"merged", "a: &a {b: 1}\nkafka: {<<: *a}", []string{"config (file", "<< is not supported"}},
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
		{"the watermarks", "channels: {a: {topic: waterclock.watermarks}}", []string{"the engine's own topic"}},
		{"the audit", "channels: {a: {topic: waterclock.audit}}", []string{"the engine's own topic"}},
		{
			"a worker's topic", "channels: {orders: {topic: waterclock.due.webhook}}",
			[]string{"channels.orders.topic", "is the topic of channel webhook"},
		},
		{
			"another's lane", "channels: {a: {topic: t, high_lane: true}, b: {topic: t.high}}",
			[]string{"t.high is also the topic of channel a"},
		},
		{
			"another's lane, which its workers read", "channels: {a: {topic: t, high_lane: false}, b: {topic: t.high}}",
			[]string{"t.high is also the topic of channel a"},
		},
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

// One file that cannot be used is one problem, under the name that leads to it, whatever else wants its secret.
func TestSecretFiles(t *testing.T) {
	missing, directory := filepath.Join(t.TempDir(), "none"), t.TempDir()
	empty, open := write(t, "empty", " \n"), write(t, "open", strings.Repeat("x", 40))
	if err := os.Chmod(open, 0o646); err != nil {
		t.Fatal(err)
	}
	for _, setting := range []struct{ key, beside string }{
		{"ack.secret_file", ""},
		{"webhook.secret_file", ""},
		{"internal.secret_file", ""},
		{"tenants.acme.webhook_secret_file", "webhook.secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
		{"export.user_hash_key_file", ""},
		{"kafka.sasl.password_file", "kafka.sasl: {mechanism: PLAIN, user: u}"},
		{"providers.fcm.credentials_file", "providers.fcm.project: p"},
		{
			"providers.apns.key_file",
			"providers.apns: {key_id: ABCDEFGHIJ, team_id: ABCDEFGHIJ, topic: com.example.app}",
		},
		{
			"providers.twilio.auth_token_file",
			"providers.twilio: {account_sid: AC00000000000000000000000000000000, from: '+15005550006'}",
		},
	} {
		for file, want := range map[string]string{
			missing: "cannot be read", directory: "is a directory", empty: empty + " is empty",
			open: "chmod o-w " + open,
		} {
			_, err := Load(Options{File: write(t, "w.yaml", setting.key+": "+file+"\n"+setting.beside+"\n")})
			var found Problems
			if !errors.As(err, &found) || len(found) != 1 || found[0].Key != setting.key ||
				!strings.Contains(found[0].Msg, want) {
				t.Errorf("%s: %s: %v, want one problem with %q", setting.key, file, err, want)
			}
		}
	}
}

// A secret that a stronger source has is used, and not the file of a weaker one.
func TestSecretFileOverridden(t *testing.T) {
	const key = "internal.secret"
	c, err := Load(Options{
		File:  write(t, "w.yaml", key+"_file: "+write(t, "weaker", strings.Repeat("f", 20))+"\n"),
		Flags: map[string]string{key: strings.Repeat("g", 20)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := c.ReadSecret(key, c.Internal.Secret); err != nil || now != strings.Repeat("g", 20) {
		t.Errorf("%q, %v", now, err)
	}
}

// Scalars are taken as they are written: YAML alone would read these as numbers and dates.
func TestPlainScalars(t *testing.T) {
	c, err := Load(Options{File: write(t, "w.yaml", `
kafka: {sasl: {mechanism: PLAIN, user: 1e5, password: 0123456}}
cassandra.password: 12_34
data_dir: 2026-11-24
tenants.acme: {rate: 12, max_pending: unlimited}
group: &name blue
topics.prefix: *name
providers.twilio: {account_sid: AC00000000000000000000000000000000, auth_token: 007, from: +15005550006}
listen:
standby: ~
roles: [engine, api]
`)})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		c.Kafka.SASL.User, c.Kafka.SASL.Password, c.Cassandra.Password, c.DataDir, c.Group, c.Topics.Prefix,
		c.Twilio.AuthToken + c.Twilio.From, c.Listen, strings.Join(c.Roles, "+"),
	}
	want := []string{
		"1e5", "0123456", "12_34", "2026-11-24", "blue", "blue", "007+15005550006", "127.0.0.1:8080", "engine+api",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The secret of a tenant may come from a file by environment, too.
func TestSecretFileOfATenantByEnvironment(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	c, err := Load(Options{Env: []string{"WATERCLOCK_TENANTS_ACME_WEBHOOK_SECRET_FILE=" + write(t, "acme", secret)}})
	if err != nil || len(c.Warnings) > 0 {
		t.Fatalf("%v, warnings %q", err, c.Warnings)
	}
	if got := c.Tenant("acme").WebhookSecret; got != secret {
		t.Errorf("the secret is %q", got)
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
