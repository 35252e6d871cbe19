package node

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/preferences/postgres"
	"github.com/waterclock/waterclock/sinks/cassandra"
	"github.com/waterclock/waterclock/sinks/notify/templates"
)

// Keys, certificates and secrets may change while a process runs. A new one applies to the next
// request or connection; open connections stay open. If a file cannot be read, the old one stays
// in force, and the log says so. Kafka clients read theirs for each new connection (kafkaconn).

// subject is something that is read from files.
type subject struct {
	name  string
	files []string
	load  func() error

	more  func() []string // further files, which the others name; nil: there are none
	twice bool            // it is loaded only when two checks find the same: files may be seen half-written
}

// watched is a subject, and what the checks have found of it.
type watched struct {
	subject

	seen   [sha256.Size]byte // hash of its files at the last check
	waits  bool              // the last check found other content, which the next one must find, too
	failed string            // why it was not valid at the last check; empty: it was
	loaded bool              // it was loaded or failed since the start
}

// reloads loads subjects whose files have changed.
type reloads struct {
	log *slog.Logger
	all []*watched
}

func newReloads(log *slog.Logger, subjects ...subject) *reloads {
	r := &reloads{log: log}
	for _, s := range subjects {
		if len(s.files) > 0 {
			r.all = append(r.all, &watched{subject: s})
		}
	}
	return r
}

// contentOf hashes the contents of files. Modification times would not do: two changes may have
// the same time in the file system.
func contentOf(files []string) (sum [sha256.Size]byte) {
	all := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, syscall.EISDIR) {
			b, err = directoryContent(f)
		}
		fmt.Fprintf(all, "%d %v ", len(b), err != nil)
		all.Write(b)
	}
	return [sha256.Size]byte(all.Sum(nil))
}

// directoryContent hashes the names and contents of the templates in a directory.
func directoryContent(dir string) ([]byte, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+templates.Suffix))
	if err != nil {
		return nil, err
	}
	sum := contentOf(files)
	for _, f := range files {
		sum = sha256.Sum256(append(sum[:], f...))
	}
	return sum[:], nil
}

// check loads the subjects that have changed, or all of them. The first check loads all, because a
// file may have changed since the process read it at its start; it does not log that. A subject
// that was not valid is tried again at each check: what was wrong may have been its mode, which no
// content shows.
//
// A file may be read between two writes of an editor: then it is empty, or ends too early, and may be valid
// all the same. So some subjects are loaded only when two checks find the same. unsure says that a second check
// must follow soon.
func (r *reloads) check(all bool) (unsure bool) {
	for _, s := range r.all {
		files := s.files
		if s.more != nil {
			files = slices.Concat(files, s.more())
		}
		now := contentOf(files)
		first, same := !s.loaded, now == s.seen
		changed := all || first || !same || s.waits
		s.seen, s.waits = now, !same && s.twice
		if s.waits {
			unsure = true
			continue
		}
		if !changed && s.failed == "" {
			continue
		}
		s.loaded = true
		if err := s.load(); err != nil {
			if changed || err.Error() != s.failed {
				r.log.Error("a changed file is not valid, so the old content stays in use: fix the file",
					"what", s.name, "error", err)
			}
			s.failed = err.Error()
			continue
		}
		s.failed = ""
		if first && !all {
			continue
		}
		r.log.Info("changed files were read again", "what", s.name)
	}
	return unsure
}

// confirmAfter is the time between two checks that must find the same.
const confirmAfter = time.Second

// run checks at once, at intervals, and on a signal.
func (r *reloads) run(ctx context.Context, every time.Duration, hangup <-chan os.Signal) {
	var confirm <-chan time.Time
	check := func(all bool) {
		confirm = nil
		if r.check(all) {
			confirm = time.After(min(every, confirmAfter))
		}
	}
	check(false)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			check(false)
		case <-confirm:
			check(false)
		case <-hangup:
			check(true)
		}
	}
}

// endpointSubject is endpoints.<origin>.* in the settings file, with the files of headers that it names.
func (n *node) endpointSubject(file string) subject {
	return subject{
		name: "endpoints.<origin> in the settings file", files: []string{file}, load: n.loadEndpoints,
		more: n.endpointFiles, twice: true,
	}
}

// startReloads starts the checks. Closing a terminal also sends SIGHUP, so `dev` ignores that
// signal.
func (n *node) startReloads(life *roles, onHangup bool) {
	var subjects []subject
	add := func(name string, load func() error, files ...string) {
		subjects = append(subjects, subject{name: name, files: files, load: load})
	}
	add("internal.secret and internal.tls", n.loadPeers, n.peerFiles()...)
	if n.keys != nil {
		add("auth.keys_file", n.loadKeys, n.cfg.Auth.KeysFile)
	}
	if n.cfg.HTTP.Cert != "" {
		add("http.tls", n.cert.load, n.cfg.HTTP.Cert, n.cfg.HTTP.Key)
	}
	if n.webhooks != nil {
		add("webhook.secret and endpoints.<origin>.headers", n.loadWebhook, n.cfg.WebhookFiles()...)
		if file := n.cfg.File(); file != "" {
			subjects = append(subjects, n.endpointSubject(file))
		}
	}
	if n.notifiers != nil && n.cfg.Templates.Dir != "" {
		add("templates.dir", n.loadTemplates, n.cfg.Templates.Dir)
	}
	if n.notifiers != nil && n.notifiers.set != nil && len(n.cfg.ProviderFiles()) > 0 {
		reload := func() error { return n.notifiers.set.Reload(n.cfg) }
		add("credentials of providers", reload, n.cfg.ProviderFiles()...)
	}
	if n.twilioTokens.Load() != nil {
		add("providers.twilio.auth_token", n.loadTwilioTokens, n.cfg.ProviderFiles()...)
	}
	if n.ackSecrets.Load() != nil {
		add("ack.secret", n.loadAckSecrets, n.cfg.AckFiles()...)
	}
	subjects = append(subjects, n.databases()...)
	r := newReloads(n.log, subjects...)
	var hangup chan os.Signal
	if onHangup {
		hangup = make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
	}
	life.start("reload", func(ctx context.Context) error {
		if onHangup {
			defer signal.Stop(hangup)
		}
		r.run(ctx, n.cfg.Reload.Interval, hangup)
		return nil
	})
}

// databases are the passwords of Cassandra and PostgreSQL, for new connections.
func (n *node) databases() (all []subject) {
	add := func(key, was string, use func(now string) error) {
		file := n.cfg.SecretFile(key)
		if file == "" {
			return
		}
		all = append(all, subject{name: key, files: []string{file}, load: func() error {
			now, err := n.cfg.ReadSecret(key, was)
			if err == nil && now == "" {
				err = fmt.Errorf("%s_file: it is empty", key)
			}
			if err != nil {
				return err
			}
			return use(now)
		}})
	}
	if s, ok := n.history.(*cassandra.Store); ok {
		add("cassandra.password", n.cfg.Cassandra.Password, func(now string) error {
			s.SetPassword(now)
			return nil
		})
	}
	if s, ok := n.preferences.(*postgres.Store); ok {
		add("postgres.url", n.cfg.Postgres.URL, s.Rotate)
	}
	return all
}

// certificate is the certificate of the API.
type certificate struct {
	from config.HTTP
	now  atomic.Pointer[tls.Certificate]
}

func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.from.Cert, c.from.Key)
	if err != nil {
		return fmt.Errorf("http.tls: %w", err)
	}
	c.now.Store(&pair)
	return nil
}

// server returns the configuration of a listener; nil means plain HTTP.
func (c *certificate) server() *tls.Config {
	if c.from.Cert == "" {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil },
	}
}

// names reports whether the certificate is for a host.
func (c *certificate) names(host string) bool {
	pair := c.now.Load()
	return pair != nil && pair.Leaf != nil && pair.Leaf.VerifyHostname(host) == nil
}

// openCert reads the certificate of the API, if there is one.
func (n *node) openCert() error {
	n.cert = &certificate{from: n.cfg.HTTP}
	if n.cfg.HTTP.Cert == "" && n.cfg.HTTP.Key == "" {
		return nil
	}
	return n.cert.load()
}

// ownHost reports whether callers may address us by this name (http.hosts, public_url).
func (n *node) ownHost(host string) bool {
	for _, name := range n.cfg.HTTP.Hosts {
		name = strings.ToLower(name)
		under, wild := strings.CutPrefix(name, "*.")
		if _, rest, ok := strings.Cut(host, "."); host == name || wild && ok && rest == under {
			return true
		}
	}
	if u, err := url.Parse(n.cfg.Public); err == nil && n.cfg.Public != "" && strings.EqualFold(host, u.Hostname()) {
		return true
	}
	self, err := os.Hostname()
	return err == nil && strings.EqualFold(host, self) || n.cert.names(host)
}

// CheckFiles reads the certificates and keys that `serve` reads when it starts. It returns
// everything that is wrong with them.
func CheckFiles(c *config.Config) error {
	n := &node{cfg: c, log: slog.New(slog.DiscardHandler)}
	_, peers := n.peerTrust()
	var keys error
	if c.HasRole("api") && c.Auth.KeysFile != "" {
		_, keys = n.readKeys(c.Auth.KeysFile)
	}
	return errors.Join(n.openCert(), peers, keys)
}

// peerFiles lists the files with which instances authenticate each other.
func (n *node) peerFiles() (files []string) {
	t := n.cfg.Internal.TLS
	for _, f := range []string{n.cfg.SecretFile("internal.secret"), t.Cert, t.Key, t.CA} {
		if f != "" {
			files = append(files, f)
		}
	}
	return files
}

// openPeers prepares the authentication between instances. fallback is the secret on
// loopback if the settings have none.
func (n *node) openPeers(fallback []byte) error {
	n.peerFallback = fallback
	t, err := n.peerTrust()
	if err != nil {
		return err
	}
	n.peers, err = peer.NewCredentials(t)
	return err
}

func (n *node) loadPeers() error {
	t, err := n.peerTrust()
	if err != nil {
		return err
	}
	return n.peers.Replace(t)
}

func (n *node) peerTrust() (t peer.Trust, err error) {
	secret, err := n.cfg.ReadSecret("internal.secret", n.cfg.Internal.Secret)
	if err != nil {
		return t, err
	}
	for _, s := range (config.Internal{Secret: secret}).Secrets() {
		t.Secrets = append(t.Secrets, []byte(s))
	}
	if len(t.Secrets) == 0 {
		if n.cfg.Internal.Secret != "" {
			return t, errors.New("internal.secret: its file is empty")
		}
		t.Secrets = [][]byte{n.peerFallback}
	}
	files := n.cfg.Internal.TLS
	if files.Cert == "" {
		return t, nil
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		return t, fmt.Errorf("internal.tls: %w", err)
	}
	t.Cert = &pair
	if files.CA == "" {
		return t, nil
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		return t, fmt.Errorf("internal.tls.ca: %w", err)
	}
	if t.Roots = x509.NewCertPool(); !t.Roots.AppendCertsFromPEM(pem) {
		return t, fmt.Errorf("internal.tls.ca: %s has no PEM certificate", files.CA)
	}
	return t, nil
}

// internalListener returns the internal listener, with TLS.
func (n *node) internalListener() net.Listener {
	return tls.NewListener(n.internal, n.peers.ServerTLS())
}
