package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/topics"
)

// check finds what no single value shows: what does not fit together. It adds
// to the problems that parsing found.
func (l *loader) check() {
	l.checkAddresses()
	l.checkConsole()
	l.checkExposure()
	l.checkAuth()
	l.checkKafka()
	l.checkTLS("kafka.tls", l.c.Kafka.TLS)
	l.checkTLS("cassandra.tls", l.c.Cassandra.TLS)
	l.checkTopics()
	l.checkChannels()
	l.checkTenants()
	l.checkWebhook()
	l.checkNotify()
	l.checkTemplates()
	l.checkPostgres()
	l.checkLinks()
	l.checkExport()
	l.checkPushAndSMS()
	l.checkFiles()
}

// CheckServe finds what only `waterclock serve` needs: there is no fallback
// in the data directory for what other instances must see too.
func (c *Config) CheckServe() error {
	l := &loader{c: c}
	if c.HasRole("history") && len(c.Cassandra.Hosts) == 0 {
		l.at("cassandra.hosts", "is unset, but roles has history: name your Cassandra nodes or omit the role")
	}
	if c.HasRole("export") && c.Export.Dir == "" {
		l.at("export.dir", "is unset, but roles has export: name a directory or omit the role")
	}
	l.checkProviders()
	for _, name := range workerChannels {
		for _, key := range c.limits(name) {
			if c.HasRole(name) && c.Postgres.URL == "" {
				l.at(key, "is set, but postgres.url is not: PostgreSQL stores what was sent")
			}
		}
	}
	if len(l.problems) > 0 {
		return l.problems
	}
	return nil
}

// at reports a problem of a key with the source its value has. A secret that is lacking because its
// file cannot be used has its problem already.
func (l *loader) at(key, format string, args ...any) {
	if l.lost[key] {
		return
	}
	l.problem(key, l.c.Source(key), format, args...)
}

func (l *loader) checkAddresses() {
	if len(l.c.Brokers) == 0 {
		l.at("brokers", "is empty: name at least one broker, such as 127.0.0.1:9092")
	}
	for _, b := range l.c.Brokers {
		l.checkAddress("brokers", b)
	}
	l.checkAddress("listen", l.c.Listen)
	l.checkAddress("kafka.listen", l.c.Kafka.Listen)
	l.checkAddress("internal.listen", l.c.Internal.Listen)
	for key, address := range map[string]string{
		"admin.listen":       l.c.Admin.Listen,
		"internal.advertise": l.c.Internal.Advertise,
	} {
		if address != "" {
			l.checkAddress(key, address)
		}
	}
	if at := l.c.Internal; loopback(at.Listen) && !loopback(at.Advertise) {
		l.c.Warnings = append(l.c.Warnings, fmt.Sprintf("internal.listen %s is on loopback, but internal.advertise %s "+
			"is not: other instances reach this one only if something on this host forwards to it", at.Listen,
			at.Advertise))
	}
	if e := l.c.Tracing.Endpoint; e != "" {
		if u, err := url.Parse(e); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			l.at("tracing.endpoint", "%q is not a URL: write for example http://127.0.0.1:4318", Masked(e))
		}
	}
	if u, err := url.Parse(l.c.URL); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		l.at("url", "%q is not a URL: write for example http://127.0.0.1:8080", Masked(l.c.URL))
	}
}

// prefixed is a path below which a proxy serves us.
var prefixed = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

func (l *loader) checkConsole() {
	if !prefixed.MatchString(l.c.Console.Prefix) {
		l.at("console.prefix", "%q is not a path: write for example /tools/waterclock, without a slash at the end",
			l.c.Console.Prefix)
	}
}

func (l *loader) checkAddress(key, address string) {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		l.at(key, "%q is not host:port: write for example 127.0.0.1:9092", address)
	}
}

// checkAuth finds secrets that are none, and an issuer anybody on the way could
// play.
func (l *loader) checkAuth() {
	for _, s := range l.c.Internal.Secrets() {
		if len(s) < 16 {
			l.at("internal.secret", "is shorter than 16 bytes (each secret, if there are two, separated by a comma)")
		}
	}
	if n := len(l.c.Internal.Secrets()); n > 2 {
		l.at("internal.secret", "has %d secrets: at most two, separated by a comma", n)
	}
	t := l.c.Internal.TLS
	if (t.Cert == "") != (t.Key == "") {
		l.at("internal.tls.cert", "needs internal.tls.key: set both or neither")
	}
	if t.CA != "" && t.Cert == "" {
		l.at("internal.tls.ca", "is set without internal.tls.cert and internal.tls.key")
	}
	if (l.c.HTTP.Cert == "") != (l.c.HTTP.Key == "") {
		l.at("http.tls.cert", "needs http.tls.key: set both or neither")
	}
	o := l.c.Auth.OIDC
	if o.Issuer == "" {
		return
	}
	if o.Audience == "" {
		l.at("auth.oidc.audience", "is unset: without it any token of the issuer would be accepted")
	}
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		l.at("auth.oidc.issuer", "%q is not a URL: write for example https://id.example.com", Masked(o.Issuer))
	case u.User != nil:
		l.at("auth.oidc.issuer", "has user info: write scheme, host and path only")
	case u.Scheme == "http" && !loopbackHost(u.Hostname()):
		l.at("auth.oidc.issuer", "%s is plain http: anybody on the network path could replace the keys and forge "+
			"tokens. Use https; plain http is only for an issuer on loopback", Masked(o.Issuer))
	}
}

func (l *loader) checkKafka() {
	s := l.c.Kafka.SASL
	switch {
	case s.Mechanism == "" && (s.User != "" || s.Password != ""):
		l.at("kafka.sasl.mechanism",
			"is unset, but a user or password is given: set PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512")
	case s.Mechanism != "" && s.User == "":
		l.at("kafka.sasl.user", "is unset, but kafka.sasl.mechanism is %s", s.Mechanism)
	case s.Mechanism != "" && s.Password == "":
		l.at("kafka.sasl.password", "is unset, but kafka.sasl.mechanism is %s", s.Mechanism)
	case s.Mechanism == "PLAIN" && !l.c.Kafka.TLS.Enabled:
		l.c.Warnings = append(l.c.Warnings,
			"kafka.sasl.mechanism PLAIN without kafka.tls.enabled sends the password readable over the network")
	}
}

func (l *loader) checkTLS(prefix string, t TLS) {
	if (t.Cert == "") != (t.Key == "") {
		l.at(prefix+".cert", "needs %s.key: set both or neither", prefix)
	}
	if !t.Enabled && t != (TLS{}) {
		l.at(prefix+".enabled", "is false, but other settings of %s are given: set it to true or omit them", prefix)
	}
}

// topicName is what Kafka allows in a topic's name; we leave room for the
// longest of our own.
var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func (l *loader) checkTopics() {
	prefix := l.c.Topics.Prefix
	if !topicName.MatchString(prefix) || len(prefix) > 150 {
		l.at("topics.prefix", "%q: a topic's name has letters, digits, '.', '_' and '-' only, a prefix 1 to 150",
			prefix)
	}
	if g := l.c.Group; g == "" || len(g) > 200 {
		l.at("group", "must have 1 to 200 characters")
	}
	if keep := l.c.Events.Retention; l.c.Events.Payload && (keep == 0 || keep > 30*24*time.Hour) {
		l.c.Warnings = append(l.c.Warnings,
			"events.payload is true and the event log is kept for over 30 days: an erase cannot remove payloads "+
				"from it")
	}
}

// channelName is docs/SEMANTICS.md.
var channelName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,48}$`)

// MaxChannels bounds the channels of a cluster (docs/SEMANTICS.md).
const MaxChannels = 100

func (l *loader) checkChannels() {
	if key := "channels.auto_create"; !l.c.dev && l.c.HasAuth() && l.c.Source(key).Kind == "default" {
		l.c.AutoCreate = false // callers who are told apart do not share what they can use up
	}
	if len(l.c.Channels) > MaxChannels {
		l.at("channels", "there are %d, over the %d allowed", len(l.c.Channels), MaxChannels)
	}
	owner := map[string]string{}
	for _, name := range sortedKeys(l.c.Channels) {
		key := "channels." + name
		if !channelName.MatchString(name) {
			l.at(key, "%q is not a channel: lower case letters, digits, '.', '_', '-', at most 49", name)
			continue
		}
		if strings.HasSuffix(name, ".high") {
			l.at(key, "%q is not a channel: it ends in .high, which is reserved for the lanes of other channels", name)
			continue
		}
		l.checkTopicOf(name, owner)
		if len(l.c.Channels[name].Retry) > 100 {
			l.at(key+".retry", "has over 100 entries")
		}
		l.checkLimited(name)
	}
	l.checkReserved(owner)
}

// checkTopicOf keeps a channel off the topics of others, and of the lanes of others.
func (l *loader) checkTopicOf(name string, owner map[string]string) {
	key, ch := "channels."+name+".topic", l.c.Channel(name)
	if !topicName.MatchString(ch.Topic) {
		l.at(key, "%q is not a topic: letters, digits, '.', '_' and '-', at most 249", ch.Topic)
	}
	if other, is := strings.CutPrefix(ch.Topic, l.c.Topic("due.")); is && other != name {
		l.at(key, "%s is the topic of channel %s or of a lane of it: a topic carries one channel", ch.Topic, other)
	}
	for _, topic := range []string{ch.Topic, ch.Topic + ".high"} { // workers read the lane even if high_lane is off
		if other, taken := owner[topic]; taken {
			l.at(key, "%s is also the topic of channel %s: a topic carries one channel", topic, other)
		}
		owner[topic] = name
	}
}

// workerChannels are those that workers of ours serve, each in the role of its name.
var workerChannels = append([]string{"webhook"}, topics.NotificationChannels...)

// WorkerChannels are the channels that workers of ours serve, each in the role of its name.
func WorkerChannels() []string { return slices.Clone(workerChannels) }

// limits are the settings of a channel that bound what one user gets, and are set.
func (c *Config) limits(name string) (keys []string) {
	ch := c.Channel(name)
	if ch.DedupWindow > 0 {
		keys = append(keys, "channels."+name+".dedup_window")
	}
	if len(ch.MaxPerUser) > 0 {
		keys = append(keys, "channels."+name+".max_per_user")
	}
	return keys
}

// checkLimited refuses bounds that nobody would keep.
func (l *loader) checkLimited(name string) {
	for _, key := range l.c.limits(name) {
		if !slices.Contains(workerChannels, name) {
			l.at(key, "is set, but Waterclock has no worker for channel %s: your worker decides what it sends", name)
		}
	}
}

// checkReserved keeps a channel's topic off the ones the engine has.
func (l *loader) checkReserved(owner map[string]string) {
	for _, own := range []string{
		"commands", "receipts", "state", "events", "rejected", "dead-letter", "control", "endpoints",
		"watermarks", "audit",
	} {
		if name, taken := owner[l.c.Topic(own)]; taken {
			l.at("channels."+name+".topic", "%s is the engine's own topic", l.c.Topic(own))
		}
	}
}

func (l *loader) checkTenants() {
	for _, name := range sortedKeys(l.c.Tenants) {
		key := "tenants." + name
		if name == "" || strings.ContainsAny(name, "/ \t\n") || len(name) > 200 {
			l.at(key, "%q is not a tenant: no '/' and no blanks, at most 200 bytes", name)
		}
		t := l.c.Tenants[name]
		l.checkOrigins(key+".callback_allow", t.CallbackAllow)
		l.checkWebhookSecret(key+".webhook_secret", t.WebhookSecret)
		for _, ch := range t.Channels {
			if !channelName.MatchString(ch) {
				l.at(key+".channels", "%q is not a channel", ch)
			}
		}
	}
}

func (l *loader) checkWebhook() {
	l.checkOrigins("webhook.allow", l.c.Webhook.Allow)
	l.checkWebhookSecret("webhook.secret", l.c.Webhook.Secret)
	l.checkEndpoints()
}

// checkOrigins: scheme, host and perhaps a port, nothing behind it.
func (l *loader) checkOrigins(key string, origins []string) {
	for _, o := range origins {
		if _, err := egress.ParseOrigin(o); err != nil {
			l.at(key, "%q %v", o, err)
		}
	}
}

// Egress is which callback URLs may be called. The origins were checked when the
// settings were loaded.
func (c *Config) Egress() (*egress.Policy, error) {
	s := egress.Settings{
		Allow: c.Webhook.Allow, Strict: c.Webhook.Strict, Loopback: c.dev, Tenants: map[string][]string{},
	}
	for name, t := range c.Tenants {
		if len(t.CallbackAllow) > 0 {
			s.Tenants[name] = t.CallbackAllow
		}
	}
	return egress.NewPolicy(s)
}

func (l *loader) checkPostgres() {
	if p := l.c.Postgres.URL; p != "" {
		if u, err := url.Parse(p); err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
			l.at("postgres.url", "is not a postgres:// URL")
		}
	}
}

// credentialFiles are the settings that name a file others must not write.
var credentialFiles = []string{
	"auth.keys_file", "kafka.tls.ca", "kafka.tls.cert", "kafka.tls.key",
	"cassandra.tls.ca", "cassandra.tls.cert", "cassandra.tls.key", "http.tls.cert", "http.tls.key",
	"internal.tls.ca", "internal.tls.cert", "internal.tls.key",
}

// CredentialFiles are the files in use that hold keys, certificates and secrets.
func (c *Config) CredentialFiles() (paths []string) {
	for _, key := range credentialFiles {
		s, _ := find(key)
		if path := *s.into(c, "").(*string); path != "" {
			paths = append(paths, path)
		}
	}
	for _, key := range sortedKeys(c.secretFiles) {
		paths = append(paths, c.secretFiles[key])
	}
	return paths
}

// checkFiles finds paths that lead nowhere before somebody waits for them, and
// credentials that anybody on the machine may replace.
func (l *loader) checkFiles() {
	for _, key := range credentialFiles {
		s, _ := find(key)
		if path := *s.into(l.c, "").(*string); path != "" {
			l.checkFile(key, path)
		}
	}
}

func (l *loader) checkFile(key, path string) {
	f, err := os.Open(path)
	if err != nil {
		l.at(key, "cannot be read: %v", err)
		return
	}
	defer f.Close()
	if err := OthersMayWrite(f); err != nil {
		l.at(key, "%v", err)
	}
}

// OthersMayWrite is an error where anybody on the machine may change a file that
// says whom to trust.
func OthersMayWrite(f *os.File) error {
	about, err := f.Stat()
	if err != nil {
		return err
	}
	if about.Mode().IsRegular() && about.Mode().Perm()&0o002 != 0 {
		return fmt.Errorf("every user may write %s: chmod o-w %s", f.Name(), f.Name())
	}
	return nil
}
