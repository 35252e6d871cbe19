package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/sinks/consent"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
	"github.com/waterclock/waterclock/topics"
)

// phones is a server in this process that accepts pushes as APNs does: HTTP/2 over TLS.
type phones struct {
	server *http.Server
	url    string
	roots  *x509.CertPool
	key    *ecdsa.PrivateKey
	took   func(key string, at time.Time) // called for each push with the last part of the trigger key
}

// keyMark precedes the notification id in the data of a push.
var keyMark = []byte(`"notification_id":"`)

func startPhones(took func(key string, at time.Time)) (*phones, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &phones{url: "https://" + ln.Addr().String(), roots: x509.NewCertPool(), key: key, took: took}
	p.roots.AddCert(cert)
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.take), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			MinVersion:   tls.VersionTLS13,
		},
	}
	go func() { _ = p.server.ServeTLS(ln, "", "") }() // returns after Close
	return p, nil
}

func (p *phones) take(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ProtoMajor != 2 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, rest, _ := bytes.Cut(body, keyMark)
	id, _, _ := bytes.Cut(rest, []byte("@"))
	w.WriteHeader(http.StatusOK)
	p.took(string(id), at)
}

// apns returns a provider that sends to these phones.
func (p *phones) apns() (*providers.APNs, error) {
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return nil, err
	}
	return providers.NewAPNs(providers.APNsOptions{
		HTTP: providers.HTTP{URL: p.url, Roots: p.roots}, KeyID: "ABC123DEFG", TeamID: "DEF123GHIJ",
		Topic: "com.example.app", Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	})
}

func (p *phones) close() { p.server.Close() }

// phoneToken is the device token of every push in a measurement.
var phoneToken = strings.Repeat("0f", 32)

// pushRun is an engine in this process, with the worker of channel push, preferences in a
// directory, and phones.
type pushRun struct {
	Setup
	engine  *node.Engine
	payload []byte
	produce *kgo.Client
	sent    int64

	mu    sync.Mutex
	first time.Time // due time of number 0 in the current phase
	every time.Duration
	name  string  // name of the current phase, which its keys contain
	late  []int64 // µs; -1 if it has not arrived
	came  int
	twice int
	herd  []bool // which triggers of the campaign have arrived
	herds int
	last  time.Time // when the last trigger of the campaign arrived
}

// besidePush starts an engine and a worker, waits until the worker has its partitions, and calls
// f.
func (b *pushRun) besidePush(
	ctx context.Context, payload int, f func(ctx context.Context, kind string) error,
) error {
	allowPayload(b.Config, payload+256)
	text := bytes.Repeat([]byte("take two pills "), payload/15+1)[:payload]
	b.payload = fmt.Appendf(nil, `{"title":"Pills","body":%q,"to":%q}`, text, "apns:"+phoneToken)
	p, err := startPhones(b.took)
	if err != nil {
		return err
	}
	defer p.close()
	apns, err := p.apns()
	if err != nil {
		return err
	}
	defer apns.Close()
	return b.besideEngine(ctx, true, func(ctx context.Context, e *node.Engine, kind string) (err error) {
		b.engine = e
		if b.produce, err = newProducer(e, b.Config); err != nil {
			return err
		}
		defer b.produce.Close()
		stop, err := b.work(ctx, apns)
		if err != nil {
			return err
		}
		if err = b.warm(ctx); err == nil {
			err = f(ctx, kind)
		}
		return errors.Join(err, stop())
	})
}

// work runs the worker like the role push.
func (b *pushRun) work(ctx context.Context, apns notify.Provider) (stop func() error, err error) {
	c := b.Config
	book, err := embedded.Open(embedded.Options{Dir: filepath.Join(c.DataDir, "preferences"), Logger: b.Logger})
	if err != nil {
		return nil, err
	}
	w, err := notify.New(notify.Options{
		Channel: "push", Kafka: b.engine.Kafka(), Providers: []notify.Provider{apns}, Book: book,
		Kit: []worker.Option{
			worker.Prefix(c.Topics.Prefix), worker.Group(c.Group), worker.Topic(c.Channel("push").Topic),
			worker.Memory(c.Worker.Memory),
		},
		Consent:     consent.New(consent.Options{Store: book, Channel: "push", Logger: b.Logger}),
		Concurrency: c.Worker.Concurrency, Logger: b.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, book.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return errors.Join(<-done, book.Close())
	}, nil
}

// took records one push. Keys have the form PHASE-KIND-NUMBER.
func (b *pushRun) took(key string, at time.Time) {
	phase, rest, _ := strings.Cut(key, "-")
	kind, number, _ := strings.Cut(rest, "-")
	i, err := strconv.Atoi(number)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil || phase != b.name:
	case kind == "low" && i < len(b.herd):
		if b.herd[i] {
			b.twice++
			return
		}
		b.herd[i], b.last = true, at
		b.herds++
	case kind == "one" && i < len(b.late):
		if b.late[i] >= 0 {
			b.twice++
			return
		}
		b.late[i] = max(0, at.Sub(b.due(i)).Microseconds())
		b.came++
	}
}

// due returns the due time of a number in the current phase.
func (b *pushRun) due(i int) time.Time {
	return b.first.Add(time.Duration(i) * b.every).Truncate(time.Millisecond)
}

// begin starts a phase: n triggers at an interval, starting at first, and a herd.
func (b *pushRun) begin(name string, n, herd int, first time.Time, every time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.name, b.first, b.every, b.came, b.twice, b.herds, b.last = name, first, every, 0, 0, 0, time.Time{}
	b.late, b.herd = make([]int64, n), make([]bool, herd)
	for i := range b.late {
		b.late[i] = -1
	}
}

// progress returns how many of a phase have arrived: of the herd, and of the others.
func (b *pushRun) progress() (herd, others int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.herds, b.came
}

// judged returns the lateness of a phase, and how many triggers are lost or doubled, including
// the herd's.
func (b *pushRun) judged() (late Lateness, within func(time.Duration) int, lost, doubled int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []int64
	for _, l := range b.late {
		if l >= 0 {
			all = append(all, l)
		}
	}
	late = lateOf(all)
	return late, func(bound time.Duration) (n int) {
		for _, l := range all {
			if l <= bound.Microseconds() {
				n++
			}
		}
		return n
	}, len(b.late) - len(all) + len(b.herd) - b.herds, b.twice
}

func (b *pushRun) command(phase, kind string, i int, due time.Time, priority string) *kgo.Record {
	key := []byte(phase + "-" + kind + "-" + strconv.Itoa(i))
	return &kgo.Record{
		Partition: topics.Partition(key, int32(b.Config.Topics.Partitions)), Key: key, Value: b.payload,
		Headers: []kgo.RecordHeader{
			{Key: "wc-fire-at", Value: strconv.AppendInt(nil, due.UnixMilli(), 10)},
			{Key: "wc-channel", Value: []byte("push")},
			{Key: "wc-priority", Value: []byte(priority)},
			{Key: "wc-user-id", Value: []byte("u" + strconv.Itoa(i%100_000))},
		},
	}
}

// register sends the triggers of the current phase with a priority, each one second before it is
// due.
func (b *pushRun) register(ctx context.Context, phase, priority string, n int) error {
	b.sent += int64(n)
	return produceAll(ctx, b.produce, n, func(i int) *kgo.Record {
		if i%16 == 0 {
			sleepUntil(ctx, b.due(i).Add(-time.Second))
		}
		return b.command(phase, "one", i, b.due(i), priority)
	})
}

// await waits until the whole phase has arrived, or nothing arrives any more.
func (b *pushRun) await(ctx context.Context) error {
	b.mu.Lock()
	want := len(b.late) + len(b.herd)
	b.mu.Unlock()
	before, still := -1, time.Now()
	for ctx.Err() == nil {
		herd, others := b.progress()
		if now := herd + others; now >= want {
			return nil
		} else if now != before {
			before, still = now, time.Now()
		} else if time.Since(still) > patience {
			if now == 0 {
				return errors.New("the worker sends nothing; see its log")
			}
			return nil
		}
		sleepUntil(ctx, time.Now().Add(5*time.Millisecond))
	}
	return ctx.Err()
}

// warm creates the topics of both priorities, and waits until the worker has them.
func (b *pushRun) warm(ctx context.Context) error {
	for _, priority := range []string{"normal", "high"} {
		n, name := 16*b.Config.Topics.Partitions, "warm"+priority
		b.begin(name, n, 0, time.Now(), time.Millisecond)
		if err := b.register(ctx, name, priority, n); err != nil {
			return err
		}
		if err := b.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// mailSink is an SMTP server that accepts every mail and stores none (RFC 5321).
type mailSink struct {
	ln    net.Listener
	mails atomic.Int64
}

func startMailSink() (*mailSink, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &mailSink{ln: ln}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s, nil
}

func (s *mailSink) port() int { return s.ln.Addr().(*net.TCPAddr).Port }

func (s *mailSink) serve(c net.Conn) {
	defer c.Close()
	r, w := bufio.NewReader(c), bufio.NewWriter(c)
	say := func(text string) {
		_, _ = w.WriteString(text + "\r\n")
		if r.Buffered() == 0 { // pipelined commands get all answers in one write (RFC 2920)
			_ = w.Flush()
		}
	}
	say("220 sink ESMTP")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(line)), " ")
		switch verb {
		case "EHLO":
			say("250-sink\r\n250-PIPELINING\r\n250 8BITMIME")
		case "DATA":
			say("354 go on")
			for text := ""; text != ".\r\n"; {
				if text, err = r.ReadString('\n'); err != nil {
					return
				}
			}
			s.mails.Add(1)
			say("250 2.0.0 taken")
		case "QUIT":
			say("221 bye")
			_ = w.Flush()
			return
		default:
			say("250 2.0.0 ok")
		}
	}
}
