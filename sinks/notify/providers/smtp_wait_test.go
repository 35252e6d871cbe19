package providers

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workertest"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/sinks/consent"
	"github.com/waterclock/waterclock/sinks/notify"
)

// mailWorld is a worker of channel email whose mail server has one connection.
type mailWorld struct {
	t      *testing.T
	server *smtpServer
	smtp   *SMTP
	store  *embedded.Store
	w      *notify.Worker
	later  atomic.Int64 // what the clock is on by
}

func newMailWorld(t *testing.T, within time.Duration) *mailWorld {
	t.Helper()
	x := &mailWorld{t: t, server: newSMTPServer(t, TLSNone, "")}
	o := x.server.options()
	o.Connections = 1
	x.smtp = newSMTP(t, o)
	var err error
	if x.store, err = embedded.Open(embedded.Options{Dir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.store.Close() })
	now := func() time.Time { return time.Now().Add(time.Duration(x.later.Load())) }
	x.w, err = notify.New(notify.Options{
		Channel: "email", Within: within, Now: now,
		Providers: []notify.Provider{Counted(x.smtp, func(string, string) {})},
		Consent: consent.New(consent.Options{
			Store: x.store, Channel: "email", Now: now, Within: time.Second, DedupWindow: time.Hour,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *mailWorld) put(p *preferences.Preferences) {
	x.t.Helper()
	if err := x.store.Put(x.t.Context(), preferences.User{Tenant: "acme", ID: "ada"}, p); err != nil {
		x.t.Fatal(err)
	}
}

func (x *mailWorld) handle(id string) worker.Result {
	x.t.Helper()
	r, err := x.w.Handle(x.t.Context(), workertest.Event(workertest.Key("acme/"+id), workertest.User("ada"),
		workertest.Payload(`{"body":"x"}`)))
	if err != nil {
		x.t.Error(err)
	}
	return r
}

// afterAWait handles a mail that waits for the connection while change happens, for 2 s.
func (x *mailWorld) afterAWait(id string, change func()) worker.Result {
	x.t.Helper()
	if err := x.smtp.free.Wait(x.t.Context(), "another"); err != nil {
		x.t.Fatal(err)
	}
	done := make(chan worker.Result)
	go func() { done <- x.handle(id) }()
	for !x.smtp.free.Waiting() {
		time.Sleep(time.Millisecond)
	}
	change()
	x.later.Add(int64(2 * time.Second))
	x.smtp.free.Release("another")
	return <-done
}

func mailsTo(address string) *preferences.Preferences {
	return &preferences.Preferences{Addresses: preferences.Addresses{Email: address}}
}

// A mail that has waited for a connection is sent by the preferences of now.
func TestSMTPConsentAfterAWait(t *testing.T) {
	x := newMailWorld(t, time.Minute)
	x.put(mailsTo("ada@example.org"))
	if r := x.afterAWait("a", func() {}); r.Outcome != worker.OutcomeAccepted {
		t.Errorf("%+v", r)
	}
	if r := x.afterAWait("b", func() { x.put(mailsTo("new@example.org")) }); r.Outcome != worker.OutcomeAccepted {
		t.Errorf("%+v", r)
	}
	if got := x.server.received(); len(got) != 2 || got[0].to != "ada@example.org" || got[1].to != "new@example.org" {
		t.Errorf("sent %+v", got)
	}
	out := mailsTo("new@example.org")
	out.OptedOut = []string{"email"}
	if r := x.afterAWait("c", func() { x.put(out) }); r.Code != preferences.CodeOptedOut {
		t.Errorf("%+v", r)
	}
	if got := x.server.received(); len(got) != 2 {
		t.Errorf("%d mails were sent", len(got))
	}
}

// A mail that gets no connection in time is postponed. The mail server is not thought to be away.
func TestSMTPNoConnectionInTime(t *testing.T) {
	x := newMailWorld(t, 100*time.Millisecond)
	x.put(mailsTo("ada@example.org"))
	if err := x.smtp.free.Wait(t.Context(), "another"); err != nil {
		t.Fatal(err)
	}
	if r := x.handle("a"); r.Outcome != worker.OutcomePostponed || r.Code != notify.CodeShare {
		t.Errorf("%+v", r)
	}
	if r := x.handle("b"); r.Code != notify.CodeShare { // and not provider_paused
		t.Errorf("%+v", r)
	}
	x.smtp.free.Release("another")
	if n := len(x.server.received()); n != 0 {
		t.Errorf("%d mails were sent", n)
	}
}

// A mail that expires while it waits for a connection is not sent.
func TestSMTPExpires(t *testing.T) {
	s := newSMTPServer(t, TLSNone, "")
	o := s.options()
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return now }
	p := newSMTP(t, o)
	m := mailTo("ada@example.org")
	m.Expires = now.Add(20 * time.Second)
	if a := p.Send(t.Context(), m); a.Result.Outcome != worker.OutcomeAccepted {
		t.Errorf("%+v", a)
	}
	now = m.Expires
	a := p.Send(t.Context(), m)
	if a.Result.Outcome != worker.OutcomeSuppressed || a.Result.Code != worker.CodeExpired {
		t.Errorf("%+v", a)
	}
	if n := len(s.received()); n != 1 {
		t.Errorf("%d mails were sent", n)
	}
}

// It is also not sent if the connection takes that long to open.
func TestSMTPExpiresMeanwhile(t *testing.T) {
	s := newSMTPServer(t, TLSNone, "")
	o := s.options()
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return now }
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		now = now.Add(30 * time.Second)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	m := mailTo("ada@example.org")
	m.Expires = now.Add(20 * time.Second)
	if a := newSMTP(t, o).Send(t.Context(), m); a.Result.Code != worker.CodeExpired || len(s.received()) != 0 {
		t.Errorf("%+v, %d mails", a, len(s.received()))
	}
}

// lateConn cancels the send of the first mail when the server has taken it, and ends the connection for that only
// once the next mail has begun.
type lateConn struct {
	net.Conn
	server *smtpServer
	cancel context.CancelFunc

	ending, next, ended chan struct{}
}

func (c *lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if len(c.server.received()) == 1 {
		c.cancel()
		<-c.ending
	}
	return n, err
}

func (c *lateConn) SetDeadline(at time.Time) error {
	if at.Equal(time.Unix(1, 0)) {
		close(c.ending)
		<-c.next
		defer close(c.ended)
		return c.Conn.SetDeadline(at)
	}
	err := c.Conn.SetDeadline(at)
	select {
	case <-c.ending:
		close(c.next)
		<-c.ended
	default:
	}
	return err
}

// A send that is cancelled when its mail is taken does not end the mail behind it.
func TestSMTPCancelledBehindTheReply(t *testing.T) {
	s := newSMTPServer(t, TLSNone, "")
	o := s.options()
	ctx, cancel := context.WithCancel(t.Context())
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if len(s.received()) > 0 {
			return c, err
		}
		return &lateConn{c, s, cancel, make(chan struct{}), make(chan struct{}), make(chan struct{})}, err
	}
	p := newSMTP(t, o)
	if a := p.Send(ctx, mailTo("ada@example.org")); a.Result.Outcome != worker.OutcomeAccepted {
		t.Errorf("the first: %+v", a)
	}
	if a := p.Send(t.Context(), mailTo("bob@example.org")); a.Result.Outcome != worker.OutcomeAccepted {
		t.Errorf("the second: %+v", a)
	}
}
