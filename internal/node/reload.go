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
}

// reloads loads subjects whose files have changed.
type reloads struct {
	log      *slog.Logger
	subjects []subject
	more     map[string]func() []string // further files of a subject, by name: those that the others name
	twice    map[string]bool            // subjects, by name, whose files may be seen half-written
	seen     []([sha256.Size]byte)      // hash of each subject's files at the last check
	waits    []bool                     // the last check found other content, which the next one must find, too
	failed   []string                   // why each was not valid at the last check; empty: it was
	loaded   []bool                     // each was loaded or failed since the start
}

func newReloads(log *slog.Logger, subjects ...subject) *reloads {
	r := &reloads{log: log}
	for _, s := range subjects {
		if len(s.files) > 0 {
			r.subjects = append(r.subjects, s)
		}
	}
	n := len(r.subjects)
	r.seen, r.waits = make([]([sha256.Size]byte), n), make([]bool, n)
	r.failed, r.loaded = make([]string, n), make([]bool, n)
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
	for i, s := range r.subjects {
		files := s.files
		if more := r.more[s.name]; more != nil {
			files = slices.Concat(files, more())
		}
		now := contentOf(files)
		first, same := !r.loaded[i], now == r.seen[i]
		changed := all || first || !same || r.waits[i]
		r.seen[i], r.waits[i] = now, !same && r.twice[s.name]
		if r.waits[i] {
			unsure = true
			continue
		}
		if !changed && r.failed[i] == "" {
			continue
		}
		r.loaded[i] = true
		if err := s.load(); err != nil {
			if changed || err.Error() != r.failed[i] {
				r.log.Error("a changed file is not valid, so the old content stays in use: fix the file",
					"what", s.name, "error", err)
			}
			r.failed[i] = err.Error()
			continue
		}
		r.failed[i] = ""
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
const endpointSubject = "endpoints.<origin> in the settings file"

// watchEndpoints says how the subject of endpoints is checked.
func (n *node) watchEndpoints(r *reloads) {
	r.more = map[string]func() []string{endpointSubject: n.endpointFiles}
	r.twice = map[string]bool{endpointSubject: true}
}

// startReloads starts the checks. Closing a terminal also sends SIGHUP, so `dev` ignores that
// signal.
func (n *node) startReloads(life *roles, onHangup bool) {
	subjects := []subject{{"internal.secret and internal.tls", n.peerFiles(), n.loadPeers}}
	if n.keys != nil {
		subjects = append(subjects, subject{"auth.keys_file", []string{n.cfg.Auth.KeysFile}, n.loadKeys})
	}
	if n.cfg.HTTP.Cert != "" {
		subjects = append(subjects, subject{"http.tls", []string{n.cfg.HTTP.Cert, n.cfg.HTTP.Key}, n.cert.load})
	}
	if n.webhooks != nil {
		subjects = append(subjects, subject{
			"webhook.secret and endpoints.<origin>.headers", n.cfg.WebhookFiles(),
			n.loadWebhook,
		})
		if file := n.cfg.File(); file != "" {
			subjects = append(subjects, subject{endpointSubject, []string{file}, n.loadEndpoints})
		}
	}
	if n.notifiers != nil && n.cfg.Templates.Dir != "" {
		subjects = append(subjects, subject{"templates.dir", []string{n.cfg.Templates.Dir}, n.loadTemplates})
	}
	if n.notifiers != nil && n.notifiers.set != nil && len(n.cfg.ProviderFiles()) > 0 {
		subjects = append(subjects, subject{
			"credentials of providers", n.cfg.ProviderFiles(),
			func() error { return n.notifiers.set.Reload(n.cfg) },
		})
	}
	if n.twilioTokens.Load() != nil {
		subjects = append(subjects, subject{"providers.twilio.auth_token", n.cfg.ProviderFiles(), n.loadTwilioTokens})
	}
	if n.ackSecrets.Load() != nil {
		subjects = append(subjects, subject{"ack.secret", n.cfg.AckFiles(), n.loadAckSecrets})
	}
	subjects = append(subjects, n.databases()...)
	r := newReloads(n.log, subjects...)
	n.watchEndpoints(r)
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
		all = append(all, subject{key, []string{file}, func() error {
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
