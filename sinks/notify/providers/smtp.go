package providers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/templates"
)

// How a connection to a mail server is encrypted.
const (
	TLSStart    = "starttls" // STARTTLS; nothing is sent without it (RFC 3207)
	TLSImplicit = "implicit" // from the first byte (RFC 8314)
	TLSNone     = "none"     // not encrypted
)

// SMTPOptions configure an SMTP.
type SMTPOptions struct {
	Host string
	Port int    // 0 means 587, or 465 with TLSImplicit
	TLS  string // "" means TLSStart
	From string // an address, perhaps with a name: Waterclock <remind@example.com>

	Username string // "": no login
	// Password is called for each connection. nil means no password.
	Password func() (string, error)
	Roots    *x509.CertPool // trusted certificate authorities; nil: the system's

	Connections   int           // maximum number. 0 means 8
	Shared        bool          // among tenants: none may use all connections
	PerConnection int           // messages per connection, which is then closed. 0 means 100
	Idle          time.Duration // how long an unused connection is kept. 0 means 30 s
	Timeout       time.Duration // of one message, if its context has none. 0 means 1 minute

	Dial func(ctx context.Context, network, address string) (net.Conn, error) // nil means net.Dialer
	Now  func() time.Time                                                     // nil means time.Now
}

// SMTP sends mails through a mail server (RFC 5321). A connection carries many mails.
type SMTP struct {
	opts SMTPOptions
	from *mail.Address

	free *slots.Slots // one slot per possible connection

	mu     sync.Mutex
	idle   []*session // the most recently used one is last
	closed bool
}

var _ notify.Reserver = (*SMTP)(nil)

// NewSMTP checks the options. It does not connect.
func NewSMTP(o SMTPOptions) (*SMTP, error) {
	o.TLS = cmp.Or(o.TLS, TLSStart)
	if o.Port == 0 {
		o.Port = map[string]int{TLSStart: 587, TLSImplicit: 465, TLSNone: 25}[o.TLS]
	}
	o.Connections, o.PerConnection = cmp.Or(o.Connections, 8), cmp.Or(o.PerConnection, 100)
	o.Idle, o.Timeout = cmp.Or(o.Idle, 30*time.Second), cmp.Or(o.Timeout, time.Minute)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	from, err := mail.ParseAddress(o.From)
	switch {
	case o.Host == "":
		return nil, errors.New("smtp: a host is needed")
	case o.Port == 0:
		return nil, fmt.Errorf("smtp: tls %q is not one of starttls, implicit, none", o.TLS)
	case err != nil:
		return nil, fmt.Errorf("smtp: from %q is not a mail address: write remind@example.com, or Reminders "+
			"<remind@example.com>", o.From)
	case o.Username != "" && o.TLS == TLSNone && !loopback(o.Host):
		return nil, errors.New("smtp: a password is not sent without TLS: set tls to starttls or implicit, or unset " +
			"the user name")
	}
	return &SMTP{opts: o, from: from, free: slots.New(o.Connections, o.Shared)}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name returns smtp.
func (s *SMTP) Name() string { return "smtp" }

// reserved is the key of contexts whose mail has a connection of this SMTP.
type reserved struct{ *SMTP }

// Reserve waits for a connection.
func (s *SMTP) Reserve(ctx context.Context, tenant string, within time.Duration) (context.Context, func(), error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := s.free.Wait(bounded, tenant); err != nil {
		return ctx, nil, err
	}
	return context.WithValue(ctx, reserved{s}, true), func() { s.free.Release(tenant) }, nil
}

// Send sends one mail.
func (s *SMTP) Send(ctx context.Context, m *notify.Message) notify.Answer {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	to, ok := recipient(m.Address)
	if !ok {
		return smtpSaid(worker.Fail(smtpInvalidAddress, "the address is not a mail address"))
	}
	msg, id, err := s.compose(m, to)
	if err != nil {
		return smtpSaid(worker.Fail(CodeInvalid, err.Error()))
	}
	if ctx.Value(reserved{s}) == nil {
		if err := s.free.Wait(ctx, m.Tenant); err != nil {
			return smtpSaid(worker.Postpone(time.Second, notify.CodeShare).
				WithDetail("not sent: all connections to the mail server are in use"))
		}
		defer s.free.Release(m.Tenant)
	}
	if s.isExpired(m) {
		return expired()
	}
	at, reply, err := s.deliver(ctx, m, to.Address, msg)
	switch {
	case errors.Is(err, errExpired):
		return expired()
	case err != nil:
		return smtpHides(smtpAnswer(at, err), to.Address)
	}
	a := smtpHides(smtpSaid(worker.Accepted().WithDetail(smtpShown(reply))), to.Address)
	a.Ref = id
	return a
}

// deliver sends over an open connection, or else over a new one. If an open one fails before
// anything was accepted, the server may just have closed it, with a goodbye or without, and a new
// one is tried.
func (s *SMTP) deliver(ctx context.Context, m *notify.Message, to string, msg *gomail.Msg) (stage, string, error) {
	if one := s.take(); one != nil {
		at, reply, err := s.over(ctx, one, to, msg)
		if !smtpIsClosed(err) && !smtpIsGoodbye(at, err) || at >= atText || ctx.Err() != nil {
			return at, reply, err
		}
	}
	one, at, err := s.connect(ctx)
	if err != nil {
		return at, "", err
	}
	if s.isExpired(m) {
		s.keep(one)
		return atConnect, "", errExpired
	}
	return s.over(ctx, one, to, msg)
}

var errExpired = errors.New("the message expired while the connection was opened")

func (s *SMTP) isExpired(m *notify.Message) bool {
	_, useful := leftUntil(m.Expires, s.opts.Now())
	return !useful
}

// over sends over one connection, and keeps it if it can be reused.
func (s *SMTP) over(ctx context.Context, one *session, to string, msg *gomail.Msg) (stage, string, error) {
	at, reply, err := one.send(ctx, s.from.Address, to, msg)
	if err != nil {
		// An error reply in a transaction leaves the connection usable after a RSET. But refusals
		// are few, so it is closed by a QUIT (RFC 5321, 4.1.1.10).
		if _, answers := errors.AsType[*textproto.Error](err); answers {
			one.quit()
		} else {
			one.close()
		}
		return at, reply, err
	}
	s.keep(one)
	return at, reply, nil
}

// take takes an idle connection, or returns nil.
func (s *SMTP) take() *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.idle) > 0 {
		one := s.idle[len(s.idle)-1]
		s.idle = s.idle[:len(s.idle)-1]
		if one.expiry.Stop() {
			return one
		}
	}
	return nil
}

// keep keeps a connection for the next message, for a while.
func (s *SMTP) keep(one *session) {
	if one.cut || one.sent >= s.opts.PerConnection {
		one.quit()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		go one.quit()
		return
	}
	s.idle = append(s.idle, one)
	one.expiry = time.AfterFunc(s.opts.Idle, func() { s.expire(one) })
}

func (s *SMTP) expire(one *session) {
	s.mu.Lock()
	for i := range s.idle {
		if s.idle[i] == one {
			s.idle = append(s.idle[:i], s.idle[i+1:]...)
			break
		}
	}
	s.mu.Unlock()
	one.quit()
}

// Close closes the connections.
func (s *SMTP) Close() error {
	s.mu.Lock()
	s.closed = true
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, one := range idle {
		if one.expiry.Stop() {
			one.quit()
		}
	}
	return nil
}

// compose makes the mail of a message. Its Message-ID is the same for every attempt.
func (s *SMTP) compose(m *notify.Message, to *mail.Address) (*gomail.Msg, string, error) {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(s.from)
	msg.AddToMailAddress(to)
	_, domain, _ := strings.Cut(s.from.Address, "@")
	id := messageID(m, domain)
	msg.SetMessageIDWithValue(id)
	msg.SetDateWithValue(s.opts.Now())
	msg.Subject(templates.OneLine(m.Title))
	// RFC 3834: prevents automatic replies such as vacation notices.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.Locale != "" && plain(m.Locale) {
		msg.SetGenHeader("Content-Language", m.Locale)
	}
	if m.High {
		msg.SetImportance(gomail.ImportanceHigh)
	}
	if m.UnsubscribeURL != "" {
		u, err := url.Parse(m.UnsubscribeURL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || !plain(m.UnsubscribeURL) {
			return nil, "", errors.New("the URL for List-Unsubscribe is not a URL")
		}
		// RFC 8058, 3.1. The headers are not encoded, because a URL is plain ASCII.
		msg.SetGenHeaderPreformatted("List-Unsubscribe", "<"+m.UnsubscribeURL+">")
		msg.SetGenHeader("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
	}
	msg.SetBodyString(gomail.TypeTextPlain, mailText(m))
	if m.HTML != "" {
		msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	}
	return msg, "<" + id + ">", nil
}

// mailText returns the body, with the links that it does not contain yet.
func mailText(m *notify.Message) string {
	text := m.Body
	for _, link := range []string{m.DeepLink, m.AckURL} {
		if link != "" && !strings.Contains(text, link) {
			text = strings.TrimSpace(text + "\n\n" + link)
		}
	}
	return text
}

func messageID(m *notify.Message, domain string) string {
	sum := sha256.Sum256([]byte(m.ID + "\x00" + m.Address))
	return hex.EncodeToString(sum[:16]) + "@" + domain
}

// recipient is an address as any mail server takes it. ok is false for one that has a name, or no
// such form.
func recipient(address string) (to *mail.Address, ok bool) {
	to, err := mail.ParseAddress(address)
	if err != nil || to.Name != "" {
		return nil, false
	}
	to.Address, ok = preferences.ASCIIMail(to.Address)
	return to, ok && plain(to.Address)
}

// plain reports whether a text is ASCII without blanks, angle brackets and control characters.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '<' || s[i] == '>' {
			return false
		}
	}
	return true
}

// session is one logged-in connection.
type session struct {
	conn   *boundedConn
	client *smtp.Client
	sent   int
	cut    bool        // a send was cancelled, which ends the connection at any moment
	expiry *time.Timer // while it is idle
}

// connect dials, encrypts and logs in.
func (s *SMTP) connect(ctx context.Context) (one *session, at stage, err error) {
	o := &s.opts
	raw, err := o.Dial(ctx, "tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port)))
	if err != nil {
		return nil, atConnect, err
	}
	conn := &boundedConn{Conn: raw}
	stop := conn.begin(ctx)
	defer func() {
		if cut := stop(); one != nil {
			one.cut = cut
		}
	}()
	defer func() {
		if err != nil {
			_ = raw.Close()
			err = because(ctx, err)
		}
	}()
	config := &tls.Config{ServerName: o.Host, RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
	var over net.Conn = conn
	if o.TLS == TLSImplicit {
		encrypted := tls.Client(conn, config)
		if err := encrypted.HandshakeContext(ctx); err != nil {
			return nil, atTLS, err
		}
		over = encrypted
	}
	client, err := smtp.NewClient(over, o.Host)
	if err != nil {
		return nil, atConnect, err
	}
	_, domain, _ := strings.Cut(s.from.Address, "@")
	if err := client.Hello(domain); err != nil {
		return nil, atConnect, err
	}
	if o.TLS == TLSStart {
		if ok, _ := client.Extension("STARTTLS"); !ok {
			return nil, atTLS, errors.New("the server does not offer STARTTLS, and providers.smtp.tls is starttls")
		}
		if err := client.StartTLS(config); err != nil {
			return nil, atTLS, err
		}
	}
	if err := s.login(client); err != nil {
		return nil, atLogin, err
	}
	return &session{conn: conn, client: client}, 0, nil
}

// errLogin describes an impossible login. It contains nothing of a password.
var errLogin = errors.New("the server offers none of PLAIN, LOGIN, SCRAM-SHA-256 and CRAM-MD5")

func (s *SMTP) login(client *smtp.Client) error {
	o := &s.opts
	if o.Username == "" {
		return nil
	}
	password := ""
	if o.Password != nil {
		var err error
		if password, err = o.Password(); err != nil {
			return fmt.Errorf("read the password: %w", err)
		}
	}
	_, offered := client.Extension("AUTH")
	mechanisms := strings.Fields(strings.ToUpper(offered))
	has := func(name string) bool {
		for _, m := range mechanisms {
			if m == name {
				return true
			}
		}
		return false
	}
	unencrypted := o.TLS == TLSNone // only to loopback (see NewSMTP)
	switch {
	case has("PLAIN"):
		return client.Auth(smtp.PlainAuth("", o.Username, password, o.Host, unencrypted))
	case has("LOGIN"):
		return client.Auth(smtp.LoginAuth(o.Username, password, o.Host, unencrypted))
	case has("SCRAM-SHA-256"):
		return client.Auth(smtp.ScramSHA256Auth(o.Username, password))
	case has("CRAM-MD5"):
		return client.Auth(smtp.CRAMMD5Auth(o.Username, password))
	}
	return errLogin
}

// send runs one mail transaction (RFC 5321, 3.3).
func (one *session) send(ctx context.Context, from, to string, msg *gomail.Msg) (at stage, reply string, err error) {
	stop := one.conn.begin(ctx)
	defer func() { one.cut = stop() }()
	defer func() {
		if err != nil {
			err = because(ctx, err)
		}
	}()
	if err := one.client.Mail("<" + from + ">"); err != nil {
		return atSender, "", err
	}
	if err := one.client.Rcpt("<" + to + ">"); err != nil {
		return atRecipient, "", err
	}
	w, err := one.client.Data()
	if err != nil {
		return atData, "", err
	}
	if _, err := msg.WriteTo(w); err != nil {
		return atText, "", err
	}
	if err := w.Close(); err != nil {
		return atText, "", err
	}
	one.sent++
	if d, ok := w.(*smtp.DataCloser); ok {
		reply = d.ServerResponse()
	}
	return 0, reply, nil
}

func (one *session) close() { _ = one.conn.Close() }

// quitWithin bounds the QUIT.
const quitWithin = time.Second

func (one *session) quit() {
	_ = one.conn.SetDeadline(time.Now().Add(quitWithin))
	_ = one.client.Quit()
	one.close()
}

// because returns the context's error if that broke the connection.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// smtpIsClosed reports whether a connection ended.
func smtpIsClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || smtpIsReset(err)
}

// boundedConn ends with a context, and bounds how much of the answers to one message it reads.
type boundedConn struct {
	net.Conn
	read int
}

const maxReplies = 256 << 10

var errReplies = errors.New("the server's answers are too long")

// begin makes the connection end with ctx until stop is called. stop returns whether ctx ended before: the connection
// then ends, and maybe not yet.
func (c *boundedConn) begin(ctx context.Context) (stop func() (cut bool)) {
	c.read = 0
	deadline, _ := ctx.Deadline() // Send has set a deadline
	_ = c.SetDeadline(deadline)
	release := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	return func() bool { return !release() }
}

func (c *boundedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.read += n; c.read > maxReplies {
		return 0, errReplies
	}
	return n, err
}
