package providers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/channeltest"
)

func newSMTP(t testing.TB, o SMTPOptions) *SMTP {
	t.Helper()
	p, err := NewSMTP(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// smtpScripts are the modes of the suite as replies of a mail server.
var smtpScripts = map[channeltest.Mode]map[string]string{
	channeltest.Takes:     nil,
	channeltest.Passing:   {"RCPT": "450 4.2.1 the mailbox is busy"},
	channeltest.Permanent: {"RCPT": "550 5.1.1 no such user"},
	channeltest.Busy:      {"MAIL": "421 4.7.0 try again later"},
	channeltest.Hangs:     {"MAIL": "hang"},
	channeltest.Away:      {onGreeting: "close", "MAIL": "close", "RCPT": "close"},
	channeltest.Refuses:   {"AUTH": "535 5.7.8 canary-password is wrong for relay", "MAIL": "close"},
}

func smtpHarness(t *testing.T, mode, auth string) channeltest.Harness {
	s := newSMTPServer(t, mode, auth)
	h := channeltest.Harness{
		Provider: newSMTP(t, s.options()), Channel: "email", Titles: true,
		Address: func(i int) string { return fmt.Sprintf("somebody%d@example.org", i) },
		Bad: []string{
			"", "x", "a@b\r\nRCPT TO:<evil@example.com>", "A <a@b.example>", "a@b.example, c@d.example",
			"a b@c.example",
		},
		Set: func(m channeltest.Mode) { s.says(smtpScripts[m]) },
		Modes: []channeltest.Mode{
			channeltest.Passing, channeltest.Permanent, channeltest.Busy, channeltest.Hangs, channeltest.Away,
		},
		Secrets: []string{"canary-password"},
		Seen: func() (seen []channeltest.Seen) {
			for _, m := range s.received() {
				text, _ := readMail(m)
				seen = append(seen, channeltest.Seen{
					Key: m.Header.Get("Message-Id"), To: m.to, Title: subject(m), Body: text,
				})
			}
			return seen
		},
	}
	if auth != "" {
		h.Modes = append(h.Modes, channeltest.Refuses)
	}
	return h
}

func subject(m receivedMail) string {
	text, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		return err.Error()
	}
	return text
}

// readMail returns the text and the HTML of a mail.
func readMail(m receivedMail) (text, html string) {
	kind, params, _ := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if !strings.HasPrefix(kind, "multipart/") {
		b, _ := io.ReadAll(quotedprintable.NewReader(strings.NewReader(m.body)))
		return string(b), ""
	}
	r := multipart.NewReader(strings.NewReader(m.body), params["boundary"])
	for {
		part, err := r.NextPart() // it decodes quoted-printable
		if err != nil {
			return text, html
		}
		b, _ := io.ReadAll(part)
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			html = string(b)
		} else {
			text = string(b)
		}
	}
}

func TestSMTPSuite(t *testing.T) {
	for name, open := range map[string]func(*testing.T) channeltest.Harness{
		"starttls":       func(t *testing.T) channeltest.Harness { return smtpHarness(t, TLSStart, "PLAIN LOGIN") },
		"implicit TLS":   func(t *testing.T) channeltest.Harness { return smtpHarness(t, TLSImplicit, "LOGIN") },
		"without either": func(t *testing.T) channeltest.Harness { return smtpHarness(t, TLSNone, "") },
	} {
		t.Run(name, func(t *testing.T) { channeltest.Run(t, open) })
	}
}

func mailTo(address string) *notify.Message {
	return &notify.Message{
		ID: "acme/pills@2026-11-20T14:00:00.000Z#0", Channel: "email", Address: address, Title: "Tabletten für Ada",
		Body: "Nimm zwei.\n.\nEnde", HTML: "<p>Nimm <b>zwei</b>.</p>", Locale: "de-AT", High: true,
		UnsubscribeURL: "https://wc.example.com/u/" + strings.Repeat("x", 200),
	}
}

// A mail as receivers see it: RFC 5322, RFC 2047, RFC 3834, RFC 8058.
func TestSMTPMail(t *testing.T) {
	s := newSMTPServer(t, TLSStart, "PLAIN")
	o := s.options()
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.FixedZone("", -5*3600))
	o.Now = func() time.Time { return at }
	p := newSMTP(t, o)
	a := p.Send(t.Context(), mailTo("ada@example.org"))
	if a.Result.Outcome != worker.OutcomeAccepted || a.Result.Detail != "2.0.0 Ok: queued as 4F1" {
		t.Fatalf("%+v", a)
	}
	m := s.received()[0]
	h := m.Header
	for name, want := range map[string]string{
		"From": `"Waterclock" <remind@example.com>`, "To": "<ada@example.org>", "Message-Id": a.Ref,
		"Date": "Fri, 20 Nov 2026 09:00:00 -0500", "Auto-Submitted": "auto-generated", "Content-Language": "de-AT",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click", "Mime-Version": "1.0", "Importance": "high",
		"List-Unsubscribe": "<https://wc.example.com/u/" + strings.Repeat("x", 200) + ">", "User-Agent": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if !strings.HasSuffix(a.Ref, "@example.com>") || subject(m) != "Tabletten für Ada" {
		t.Errorf("%s, %s", a.Ref, subject(m))
	}
	text, html := readMail(m)
	if strings.ReplaceAll(text, "\r\n", "\n") != "Nimm zwei.\n.\nEnde" || html != "<p>Nimm <b>zwei</b>.</p>" {
		t.Errorf("%q, %q", text, html)
	}
	if m.from != "FROM:<remind@example.com> BODY=8BITMIME" {
		t.Errorf("sender %q", m.from)
	}
	if _, err := mail.ParseDate(h.Get("Date")); err != nil {
		t.Error(err)
	}
}

// An international domain is sent as A-labels: a server without SMTPUTF8 refuses anything else
// (RFC 6531). Nothing is asked of a server for an address that has no such form.
func TestSMTPInternationalDomain(t *testing.T) {
	s := newSMTPServer(t, TLSStart, "")
	p := newSMTP(t, s.options())
	a := p.Send(t.Context(), mailTo("ada@exämple.org"))
	if a.Result.Outcome != worker.OutcomeAccepted {
		t.Fatalf("%+v", a)
	}
	m := s.received()[0]
	if got := m.Header.Get("To"); got != "<ada@xn--exmple-cua.org>" || m.to != "ada@xn--exmple-cua.org" {
		t.Errorf("to %q, %q", got, m.to)
	}
	for _, bad := range []string{
		"jürgen@example.org", "ada@b\u2028c.org", "ada@b\u202ec.org", "ada@example.org\r\nRCPT TO:<b@c.org>",
	} {
		a := p.Send(t.Context(), mailTo(bad))
		if a.Result.Outcome != worker.OutcomeFailed || a.Result.Code != smtpInvalidAddress {
			t.Errorf("%q: %+v", bad, a)
		}
	}
	if n := len(s.received()); n != 1 {
		t.Errorf("%d mails", n)
	}
}

// Connections are used for more than one mail, but not for ever.
func TestSMTPConnections(t *testing.T) {
	s := newSMTPServer(t, TLSStart, "")
	o := s.options()
	o.PerConnection = 10
	p := newSMTP(t, o)
	for range 35 {
		if a := p.Send(t.Context(), mailTo("ada@example.org")); a.Result.Outcome != worker.OutcomeAccepted {
			t.Fatalf("%+v", a)
		}
	}
	s.mu.Lock()
	n := s.connections
	s.mu.Unlock()
	if n != 4 {
		t.Errorf("%d connections for 35 mails, want 4", n)
	}
}

// After a refused message, the connection is closed by a QUIT.
func TestSMTPQuitsAfterARefusal(t *testing.T) {
	s := newSMTPServer(t, TLSStart, "")
	s.says(map[string]string{"RCPT": "550 5.1.1 nobody"})
	p := newSMTP(t, s.options())
	for begin := time.Now(); ; { // a loaded machine may need longer than quitWithin
		if a := p.Send(t.Context(), mailTo("ada@example.org")); a.Result.Outcome != worker.OutcomeFailed {
			t.Fatalf("%+v", a)
		}
		s.mu.Lock()
		left := slices.Contains(s.dialogue, "QUIT")
		s.mu.Unlock()
		if left {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("the server has read no QUIT")
		}
	}
}

// If the server has closed a connection meanwhile, a new one is used, and nothing was sent on the
// old one.
func TestSMTPStaleConnection(t *testing.T) {
	s := newSMTPServer(t, TLSNone, "")
	p := newSMTP(t, s.options())
	for i := range 5 {
		if a := p.Send(t.Context(), mailTo("ada@example.org")); a.Result.Outcome != worker.OutcomeAccepted {
			t.Fatalf("%d: %+v", i, a)
		}
		s.mu.Lock()
		for c := range s.open {
			c.Close()
		}
		s.mu.Unlock()
	}
	if n := len(s.received()); n != 5 {
		t.Errorf("%d mails, want 5", n)
	}
}

// If the server says goodbye on a connection that was idle, a new one is used. The answer of a
// connection that was not idle counts.
func TestSMTPGoodbye(t *testing.T) {
	for _, goodbye := range []string{"421 4.4.2 timeout exceeded", "451 4.4.2 timeout, closing", "421 bye"} {
		s := newSMTPServer(t, TLSNone, "")
		p := newSMTP(t, s.options())
		p.Send(t.Context(), mailTo("ada@example.org"))
		s.mu.Lock()
		s.once = map[string]string{"MAIL": goodbye}
		s.mu.Unlock()
		a := p.Send(t.Context(), mailTo("ada@example.org"))
		if n := len(s.received()); n != 2 || a.Result.Outcome != worker.OutcomeAccepted {
			t.Errorf("%s: %d mails, %+v", goodbye, n, a)
		}
		s.says(map[string]string{"MAIL": goodbye})
		if a := newSMTP(t, s.options()).Send(t.Context(), mailTo("ada@example.org")); len(s.received()) != 2 ||
			a.Result.Outcome == worker.OutcomeAccepted {
			t.Errorf("%s: %+v", goodbye, a)
		}
	}
}

// An idle connection is closed.
func TestSMTPIdle(t *testing.T) {
	s := newSMTPServer(t, TLSNone, "")
	o := s.options()
	o.Idle = time.Millisecond
	p := newSMTP(t, o)
	p.Send(t.Context(), mailTo("ada@example.org"))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		open := len(s.open)
		s.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it stays open")
		}
	}
}

// The connection breaks after the server got the mail and before it answered. The mail may be
// sent a second time, and the receipt says so.
func TestSMTPMayBeSent(t *testing.T) {
	s := newSMTPServer(t, TLSNone, "")
	s.says(map[string]string{onText: "close"})
	a := newSMTP(t, s.options()).Send(t.Context(), mailTo("ada@example.org"))
	if a.Result.Outcome != worker.OutcomeRetry || a.Result.Code != smtpMayBeSent || a.Throttled ||
		len(s.received()) != 1 {
		t.Errorf("%+v, %d mails", a, len(s.received()))
	}
}

// A server with an untrusted certificate, or without TLS, gets neither password nor mail.
func TestSMTPNoTLS(t *testing.T) {
	plainServer := newSMTPServer(t, TLSNone, "PLAIN")
	o := plainServer.options()
	o.TLS = TLSStart
	if a := newSMTP(t, o).Send(t.Context(), mailTo("ada@example.org")); !a.Throttled ||
		!strings.Contains(a.Result.Detail, "does not offer STARTTLS") {
		t.Errorf("%+v", a)
	}
	for _, mode := range []string{TLSStart, TLSImplicit} {
		s := newSMTPServer(t, mode, "PLAIN")
		o := s.options()
		o.Roots = newCertificate(t).roots
		if a := newSMTP(t, o).Send(t.Context(), mailTo("ada@example.org")); !a.Throttled || a.Result.Code != CodeTLS {
			t.Errorf("%+v", a)
		}
		for _, line := range s.dialogue {
			if strings.HasPrefix(line, "AUTH") || strings.HasPrefix(line, "MAIL") {
				t.Errorf("said %q", line)
			}
		}
	}
	if len(plainServer.received()) > 0 {
		t.Error("sent without TLS")
	}
}

// A password that cannot be read, and a new one after the old was refused.
func TestSMTPPassword(t *testing.T) {
	s := newSMTPServer(t, TLSStart, "PLAIN")
	o := s.options()
	password, fails := "wrong", errors.New("no such file")
	var err error
	o.Password = func() (string, error) { return password, err }
	p := newSMTP(t, o)
	if a := p.Send(t.Context(), mailTo("ada@example.org")); !a.Throttled || a.Result.Code != "5.7.8" {
		t.Errorf("%+v", a)
	}
	err = fails
	if a := p.Send(t.Context(), mailTo("ada@example.org")); !a.Throttled || !strings.Contains(a.Result.Detail,
		"no such file") {
		t.Errorf("%+v", a)
	}
	password, err = "canary-password", nil
	if a := p.Send(t.Context(), mailTo("ada@example.org")); a.Result.Outcome != worker.OutcomeAccepted {
		t.Errorf("%+v", a)
	}
}

// The connection to a server whose reply does not end is closed.
func TestSMTPTalksForEver(t *testing.T) {
	s := newSMTPServer(t, TLSNone, "")
	s.says(map[string]string{"MAIL": strings.Repeat("250-and\n", 100_000) + "250 Ok"})
	a := newSMTP(t, s.options()).Send(t.Context(), mailTo("ada@example.org"))
	if a.Result.Outcome != worker.OutcomeRetry || !strings.Contains(a.Result.Detail, "too long") {
		t.Errorf("%+v", a)
	}
	s.says(map[string]string{onGreeting: "220 " + strings.Repeat("x", 1<<20)})
	if a := newSMTP(t, s.options()).Send(t.Context(),
		mailTo("ada@example.org")); a.Result.Outcome != worker.OutcomePostponed {
		t.Errorf("%+v", a)
	}
}

func TestSMTPOptions(t *testing.T) {
	for _, c := range []struct {
		o    SMTPOptions
		want string
	}{
		{SMTPOptions{From: "a@b.example"}, "host"},
		{SMTPOptions{Host: "mx.example", From: "nobody"}, "from"},
		{SMTPOptions{Host: "mx.example", From: "a@b.example", TLS: "maybe"}, "tls"},
		{SMTPOptions{Host: "mx.example", From: "a@b.example", TLS: TLSNone, Username: "x"}, "without TLS"},
	} {
		if _, err := NewSMTP(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
	for mode, port := range map[string]int{"": 587, TLSImplicit: 465, TLSNone: 25} {
		p, err := NewSMTP(SMTPOptions{Host: "localhost", From: "a@b.example", TLS: mode})
		if err != nil || p.opts.Port != port {
			t.Errorf("%q: %v", mode, err)
		}
	}
}

// The table of errors and their meaning.
func TestSMTPAnswer(t *testing.T) {
	said := func(code int, text string) error { return &textproto.Error{Code: code, Msg: text} }
	const fail, retry, postpone = worker.OutcomeFailed, worker.OutcomeRetry, worker.OutcomePostponed
	for _, c := range []struct {
		at        stage
		err       error
		outcome   worker.Outcome
		code      string
		throttled bool
	}{
		{atConnect, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, postpone, CodeRefused, true},
		{atConnect, &net.DNSError{Err: "no such host"}, postpone, CodeDNS, true},
		{atConnect, io.EOF, postpone, CodeReset, true},
		{atConnect, context.DeadlineExceeded, postpone, worker.CodeTimeout, true},
		{atConnect, context.Canceled, retry, worker.CodeTimeout, false},
		{atConnect, said(554, "5.3.2 no service"), postpone, "5.3.2", true},
		{atConnect, said(421, "4.3.2 too many connections"), postpone, "4.3.2", true},
		{atTLS, errors.New("bad record"), postpone, CodeConnection, true},
		{atLogin, said(535, "5.7.8 no"), postpone, "5.7.8", true},
		{atLogin, said(454, "4.7.0 later"), postpone, "4.7.0", true},
		{atSender, said(421, "bye"), postpone, "smtp_421", true},
		{atSender, said(451, "4.3.0 disk"), retry, "4.3.0", false},
		{atSender, said(550, "5.7.1 not your domain"), postpone, "5.7.1", true},
		{atSender, said(552, "5.3.4 too big"), fail, "5.3.4", false},
		{atSender, io.EOF, retry, CodeReset, false},
		{atSender, context.DeadlineExceeded, retry, worker.CodeTimeout, false},
		{atRecipient, said(550, "5.1.1 no such user"), fail, "5.1.1", false},
		{atRecipient, said(550, "no such user 5.1.1"), fail, "smtp_550", false},
		{atRecipient, said(550, "4.1.1 of another class"), fail, "smtp_550", false},
		{atRecipient, said(450, "4.7.1 greylisted"), retry, "4.7.1", false},
		{atRecipient, said(452, "4.5.3 too many"), postpone, "4.5.3", true},
		{atRecipient, said(450, "4.7.28 rate"), postpone, "4.7.28", true},
		{atRecipient, said(250, "at the wrong moment"), retry, "smtp_250", false},
		{atData, said(554, "5.5.1 none"), fail, "5.5.1", false},
		{atText, said(554, "5.7.1 spam"), fail, "5.7.1", false},
		{atText, said(451, "4.3.0 later"), retry, "4.3.0", false},
		{atText, io.ErrUnexpectedEOF, retry, smtpMayBeSent, false},
		{atText, context.DeadlineExceeded, retry, smtpMayBeSent, false},
	} {
		a := smtpAnswer(c.at, c.err)
		if r := a.Result; r.Outcome != c.outcome || r.Code != c.code || a.Throttled != c.throttled || a.DeadAddress ||
			r.Detail == "" {
			t.Errorf("%v %v: %+v, want %s %s %v", c.at, c.err, a, c.outcome, c.code, c.throttled)
		}
	}
}

func FuzzSMTPCodes(f *testing.F) {
	f.Add(550, "5.1.1 no such user")
	f.Fuzz(func(t *testing.T, status int, text string) {
		a := smtpAnswer(atRecipient, &textproto.Error{Code: status, Msg: text})
		if len(a.Result.Code) > 32 || strings.ContainsAny(a.Result.Detail, "\r\n") || len(a.Result.Detail) > 512 {
			t.Errorf("%+v", a)
		}
	})
}

// BenchmarkSMTP measures mails per second to a server in this process.
func BenchmarkSMTP(b *testing.B) {
	s := newSMTPServer(b, TLSStart, "PLAIN")
	p := newSMTP(b, s.options())
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if a := p.Send(context.Background(),
				mailTo("ada@example.org")); a.Result.Outcome != worker.OutcomeAccepted {
				b.Fatalf("%+v", a)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
}

// A tenant whose mails hang leaves connections for others.
func TestSMTPShared(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := newSMTPServer(t, TLSNone, "")
	o := s.options()
	o.Connections, o.Shared = 4, true
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(hangs{}) != nil {
			address = silent.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	p := newSMTP(t, o)
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), hangs{}, true))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range 20 {
		all.Go(func() { p.Send(ctx, &notify.Message{ID: "evil/x@y#0", Tenant: "evil", Address: "a@evil.example"}) })
	}
	for !p.free.Waiting() { // the tenant uses its whole share
		time.Sleep(time.Millisecond)
	}
	bounded, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	m := &notify.Message{ID: "acme/x@y#0", Tenant: "acme", Address: "ada@example.com", Body: "x"}
	if a := p.Send(bounded, m); a.Result.Outcome != worker.OutcomeAccepted {
		t.Errorf("another tenant's mail: %+v", a)
	}
}

// hangs marks the contexts of mails that hang.
type hangs struct{}
