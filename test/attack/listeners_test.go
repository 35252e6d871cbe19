package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/test/built"
)

// Attacks on the listeners themselves, by who has no credential at all: each is run
// against every listener of a `waterclock dev` with auth and TLS, slow and resetting
// ones against a serve too, while somebody honest uses it. The figures in
// docs/operations/security.md are what it logs.

const (
	listenersKey    = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
	listenersSecret = "a secret that no attacker has"
)

// listenersWorld is a process with all its listeners.
type listenersWorld struct {
	t                           *testing.T
	api, admin, internal, kafka string
	process                     *exec.Cmd
	log                         bytes.Buffer
}

// newListenersWorld is a dev.
func newListenersWorld(t *testing.T) *listenersWorld { return newListenersWorldOf(t, "dev") }

// newListenersWorldOf is a dev, or a serve on a broker in the test's process.
func newListenersWorldOf(t *testing.T, kind string) *listenersWorld {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	bin, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w := &listenersWorld{t: t}
	for _, at := range []*string{&w.api, &w.admin, &w.internal, &w.kafka} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		*at = ln.Addr().String()
		defer ln.Close()
	}
	keys := filepath.Join(dir, "keys")
	if err := os.WriteFile(keys, []byte("acme "+listenersKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := listenersPair(t, dir)
	broker := []string{"--kafka-listen", w.kafka}
	if kind == "serve" {
		w.kafka = ""
		broker = []string{"--brokers", startBroker(t), "--topics-partitions", "4"}
	}
	w.process = exec.Command(bin, append(broker, "--data-dir", filepath.Join(dir, "data"), "--listen", w.api,
		"--admin-listen", w.admin, "--internal-listen", w.internal,
		"--auth-keys-file", keys, "--http-tls-cert", cert, "--http-tls-key", key)...)
	w.process.Args = slices.Insert(w.process.Args, 1, kind)
	w.process.Env = append(os.Environ(), "WATERCLOCK_INTERNAL_SECRET="+listenersSecret)
	w.process.Stdout, w.process.Stderr = io.Discard, &w.log
	w.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return w
}

func (w *listenersWorld) start() {
	w.t.Helper()
	if err := w.process.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = w.process.Process.Kill()
		_ = w.process.Wait()
		if w.t.Failed() {
			w.t.Log(w.log.String())
		}
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if resp, err := http.Get("http://" + w.admin + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			w.t.Fatal("not ready")
		}
	}
}

func listenersPair(t *testing.T, dir string) (cert, key string) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	like := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, like, like, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// listenersTLS trusts anybody: the attacker does not care who it is.
func listenersTLS(protocols ...string) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: protocols} //nolint:gosec // the attacker's side
}

// honest asks n times, each on a connection of its own, and returns how long each
// took.
func (w *listenersWorld) honest(n int) (took []time.Duration) {
	w.t.Helper()
	client := &http.Client{
		Timeout:   20 * time.Second,
		Transport: &http.Transport{TLSClientConfig: listenersTLS(), DisableKeepAlives: true},
	}
	for range n {
		req, err := http.NewRequest(http.MethodGet, "https://"+w.api+"/v1/triggers?limit=1", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+listenersKey)
		began := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			w.t.Errorf("an honest caller: %v", err)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			w.t.Errorf("an honest caller: %s", resp.Status)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took
}

func listenersP99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	return took[len(took)*99/100]
}

var listenersResident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// resident is the process's memory in MB.
func (w *listenersWorld) resident() int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.process.Process.Pid))
	if err != nil {
		w.t.Skip("no /proc here")
	}
	kb, err := strconv.Atoi(listenersResident.FindStringSubmatch(string(b))[1])
	if err != nil {
		w.t.Fatal(err)
	}
	return kb >> 10
}

// listenersFirst is the time from the beginning of an attack in which latency is measured. Attacks and their controls
// begin with all they have, and last for different times.
const listenersFirst = 5 * time.Second

// listenersArrivals is how long callers would have waited who come at any moment. An honest caller asks
// one after another, so what holds it up for a second is a single call. Others would have come meanwhile.
func listenersArrivals(took []time.Duration) (all []time.Duration) {
	const apart = 2 * time.Millisecond
	for _, left := range took {
		all = append(all, left)
		for left -= apart; left > 0; left -= apart {
			all = append(all, left)
		}
	}
	slices.Sort(all)
	return all
}

// under measures an honest caller before and during an attack, which is over when
// its function returns. It returns how long calls took in the attack's first seconds.
func (w *listenersWorld) under(name string, attack func() string) []time.Duration {
	w.t.Helper()
	before, memory := listenersP99(w.honest(100)), w.resident()
	done, began := make(chan string, 1), time.Now()
	go func() { done <- attack() }()
	peak := memory
	var during []time.Duration
	for said := ""; said == ""; {
		first := time.Since(began) < listenersFirst // also if it hangs for longer
		if took := w.honest(10); first {
			during = append(during, took...)
		}
		peak = max(peak, w.resident())
		select {
		case said = <-done:
			slices.Sort(during)
			const digits = time.Millisecond / 10
			w.t.Logf("%s: %s; honest p99 %v before, %v during (%d calls, at most %v; at any moment %v); memory %d MB "+
				"before, at most %d MB", name, said, before.Round(digits), listenersP99(during).Round(digits),
				len(during), slices.Max(append(during, 0)).Round(digits),
				listenersP99(listenersArrivals(during)).Round(digits), memory, peak)
		default:
		}
	}
	if peak-memory > 200 {
		w.t.Errorf("%s: memory grew by %d MB", name, peak-memory)
	}
	return during
}

// trickle opens n connections that begin with some bytes and go on byte
// by byte, and waits until the server has cut all of them off.
func (w *listenersWorld) trickle(n int, address string, overTLS bool, begin []byte) string {
	began := time.Now()
	w.connect(n, address, func(conn net.Conn) {
		if overTLS {
			secure := tls.Client(conn, listenersTLS())
			if secure.Handshake() != nil {
				return // cut off already, or not let in
			}
			conn = secure
		}
		_, _ = conn.Write(begin)
		stop := make(chan struct{})
		defer close(stop)
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(500 * time.Millisecond):
					_, _ = conn.Write([]byte("a"))
				}
			}
		}()
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
			w.t.Errorf("%s keeps a connection for two minutes", address)
		}
	})
	return fmt.Sprintf("%d connections were cut off within %v", n, time.Since(began).Round(time.Second))
}

// callers opens n connections as trickle does, each of which asks at once, reads an answer, and is
// silent until the time is over. It is the control of trickle: what as many ordinary callers cost.
func (w *listenersWorld) callers(n int, address string, config *tls.Config, ask []byte) string {
	const within = 20 * time.Second
	began := time.Now()
	var answered atomic.Int64
	w.connect(n, address, func(conn net.Conn) {
		if config != nil {
			conn = tls.Client(conn, config)
		}
		_ = conn.SetDeadline(time.Now().Add(within))
		_, err := conn.Write(ask)
		if err == nil {
			_, err = conn.Read(make([]byte, 4096))
		}
		if err != nil {
			w.t.Errorf("an ordinary caller of %s: %v", address, err)
			return
		}
		answered.Add(1)
		time.Sleep(time.Until(began.Add(listenersFirst)))
	})
	return fmt.Sprintf("%d of %d callers were answered", answered.Load(), n)
}

// connect opens n connections at once, and waits until use has returned for all of them.
func (w *listenersWorld) connect(n int, address string, use func(net.Conn)) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				w.t.Errorf("connect to %s: %v", address, err)
				return
			}
			defer conn.Close()
			use(conn)
		})
	}
	all.Wait()
}

// peerTLS is what another instance of the cluster shows.
func (w *listenersWorld) peerTLS() *tls.Config {
	w.t.Helper()
	credentials, err := peer.NewCredentials(peer.Trust{Secrets: [][]byte{[]byte(listenersSecret)}})
	if err != nil {
		w.t.Fatal(err)
	}
	own, err := credentials.ServerTLS().GetConfigForClient(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	config := listenersTLS()
	config.Certificates = own.Certificates
	return config
}

// Who sends slowly holds no listener: each cuts it off, and serves others meanwhile. It costs an
// honest caller no more than as many ordinary callers of that listener do, but for what an attack
// may, or three times as much: all begin at once, and how long the machine needs for that differs by
// more. An attack fails the test that costs more in each of three rounds.
func TestListenersSlowLoris(t *testing.T) {
	for _, kind := range []string{"dev", "serve"} {
		t.Run(kind, func(t *testing.T) { slowLoris(newListenersWorldOf(t, kind)) })
	}
}

func slowLoris(w *listenersWorld) {
	w.start()
	header := []byte("GET /v1/triggers HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
	half := []byte{22, 3, 1, 1}                         // of a handshake
	frame := binary.BigEndian.AppendUint32(nil, 40<<20) // a request of 40 MiB, which never comes
	get := func(path, header string) []byte {
		return []byte("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + header + "\r\n")
	}
	list := get("/v1/triggers?limit=1", "Authorization: Bearer "+listenersKey+"\r\n")
	unsigned := get("/internal/v1/partitions", "") // a certificate of the cluster gets as far as 401
	versions := []byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 255, 255}
	for _, c := range []struct {
		name, address string
		tls           bool
		begin         []byte
		config        *tls.Config // of as many ordinary callers
		ask           []byte
	}{
		{"headers to listen", w.api, true, header, listenersTLS(), list},
		{"half a handshake to listen", w.api, false, half, listenersTLS(), list},
		{"headers to admin.listen", w.admin, false, header, nil, get("/healthz", "")},
		{"half a handshake to internal.listen", w.internal, false, half, w.peerTLS(), unsigned},
		{"no certificate to internal.listen", w.internal, true, header, w.peerTLS(), unsigned},
		{"a request to kafka.listen", w.kafka, false, frame, nil, versions},
	} {
		if c.address == "" { // serve's broker is no part of it
			continue
		}
		const conns, slowRounds, times = 200, 3, 3
		for round := range slowRounds {
			control := listenersP99(listenersArrivals(w.under("as many ordinary callers", func() string {
				return w.callers(conns, c.address, c.config, c.ask)
			})))
			slow := listenersP99(listenersArrivals(w.under(c.name, func() string {
				over := time.Now().Add(listenersFirst)
				said := w.trickle(conns, c.address, c.tls, c.begin)
				time.Sleep(time.Until(over)) // who is cut off at once: both p99s are of as long
				return said
			})))
			if slow <= max(control+mayDelay, times*control) {
				break
			}
			if round == slowRounds-1 {
				w.t.Errorf("%s: in each of %d rounds an honest p99 is over %v longer than beside ordinary callers "+
					"and over %d times as long, at last %v and %v", c.name, slowRounds, mayDelay, times, slow, control)
			}
		}
	}
}

// Streams that are reset as soon as they are opened (CVE-2023-44487) keep nobody
// else from being answered, and fill no memory. They cost an honest caller no more than
// as many callers cost whose requests are refused and not reset: over some rounds, the median
// of how many times as long its p99 is bounded. Both are measured one after the other, so a
// busy machine slows both.
func TestListenersRapidReset(t *testing.T) {
	for _, kind := range []string{"dev", "serve"} {
		t.Run(kind, func(t *testing.T) { rapidReset(newListenersWorldOf(t, kind)) })
	}
}

func rapidReset(w *listenersWorld) {
	w.start()
	const conns, streams, resetRounds, mayTake = 8, 20_000, 3, 3.0
	var times []float64
	for range resetRounds {
		control := w.under("refused, not reset", func() string { return w.refused(conns, listenersFlood) })
		reset := w.under("rapid reset", func() string { return w.reset(conns, streams) })
		times = append(times, float64(listenersP99(reset))/float64(listenersP99(control)))
	}
	slices.Sort(times)
	w.t.Logf("an honest p99 is %.1f times as long as without resets", times)
	if median := times[resetRounds/2]; median > mayTake {
		w.t.Errorf("resets make an honest p99 %.1f times as long, may be %.0f times", median, mayTake)
	}
}

// listenersFlood is about how long a server takes for the streams of a rapid reset.
const listenersFlood = 2 * time.Second

// refused sends requests without a right key for a time, as many at once as a connection may have.
func (w *listenersWorld) refused(conns int, d time.Duration) string {
	const atOnce = 32
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	var answered atomic.Int64
	for range conns {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: listenersTLS("h2"), ForceAttemptHTTP2: true}}
		for range atOnce {
			all.Go(func() {
				for ctx.Err() == nil {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+w.api+"/v1/triggers", nil)
					if err != nil {
						w.t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+strings.Repeat("x", 40))
					if resp, err := client.Do(req); err == nil {
						resp.Body.Close()
						answered.Add(1)
					}
				}
			})
		}
		defer client.CloseIdleConnections()
	}
	all.Wait()
	return fmt.Sprintf("%d requests were answered on %d connections", answered.Load(), conns)
}

// reset opens and resets streams on some connections.
func (w *listenersWorld) reset(conns, streams int) string {
	var all sync.WaitGroup
	var sent atomic.Int64
	for range conns {
		all.Go(func() { sent.Add(int64(listenersReset(w.t, w.api, streams))) })
	}
	all.Wait()
	return fmt.Sprintf("%d of %d streams were taken on %d connections", sent.Load(), conns*streams, conns)
}

// listenersReset opens and resets streams until the server has enough; it returns
// how many it took.
func listenersReset(t *testing.T, address string, streams int) (sent int) {
	conn, err := tls.Dial("tcp", address, listenersTLS("h2"))
	if err != nil {
		t.Errorf("connect: %v", err)
		return 0
	}
	defer conn.Close()
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		t.Error("no HTTP/2 is spoken, so the attack is none")
		return 0
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	var fields bytes.Buffer
	encoder := hpack.NewEncoder(&fields)
	for _, f := range [][2]string{
		{":method", "GET"},
		{":scheme", "https"},
		{":authority", address},
		{":path", "/v1/triggers"},
		{"authorization", "Bearer " + strings.Repeat("x", 40)},
	} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return 0
	}
	framer := http2.NewFramer(conn, conn)
	if framer.WriteSettings() != nil {
		return 0
	}
	_ = conn.SetWriteDeadline(time.Now().Add(15 * time.Second)) // a server that has enough may just not read on
	for i := range streams {
		id := uint32(2*i + 1)
		if framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: fields.Bytes(), EndStream: true, EndHeaders: true,
		}) != nil || framer.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			return i
		}
	}
	return streams
}

// The internal interface says nothing to who has not the secret: not in plain http,
// not over TLS.
func TestListenersInternalIsSilent(t *testing.T) {
	w := newListenersWorld(t)
	w.start()
	ask := func(conn net.Conn) string {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprint(conn, "GET /internal/v1/partitions HTTP/1.1\r\nHost: "+w.internal+"\r\nConnection: close\r\n\r\n")
		b, _ := io.ReadAll(conn)
		return string(b)
	}
	conn, err := net.Dial("tcp", w.internal)
	if err != nil {
		t.Fatal(err)
	}
	if said := ask(conn); strings.Contains(said, "200 OK") || strings.Contains(said, "partition") {
		t.Errorf("plain http: %q", said)
	}
	if conn, err := tls.Dial("tcp", w.internal, listenersTLS()); err == nil {
		if said := ask(conn); said != "" {
			t.Errorf("without a certificate: %q", said)
		}
	}
}

// How long a refusal takes says nothing of how near a key was. The bound is wide,
// for machines that are busy: what leaks is logged.
func TestListenersKeyTiming(t *testing.T) {
	w := newListenersWorld(t)
	w.start()
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: listenersTLS()}}
	keys := []string{strings.Repeat("z", 40), listenersKey[:39] + "z", "k" + strings.Repeat("z", 39)}
	took := make([][]time.Duration, len(keys))
	for range 600 {
		for i, key := range keys {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+w.api+"/v1/triggers", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+key)
			began := time.Now()
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Fatalf("%s: %s", key, resp.Status)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	var medians []time.Duration
	for i := range took {
		slices.Sort(took[i])
		medians = append(medians, took[i][len(took[i])/2])
	}
	t.Logf("median of a key wrong at once %v, in its last character %v, in its second %v", medians[0], medians[1],
		medians[2])
	if slices.Max(medians)-slices.Min(medians) > 5*time.Millisecond {
		t.Errorf("medians differ: %v", medians)
	}
}
