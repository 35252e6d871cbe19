package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// insideBinary names the waterclock of the test that runs in a network of its own.
const insideBinary = "WATERCLOCK_TEST_INSIDE_BINARY"

// Addresses of the network of TestCallbacksReachNothingInside. Somebody listens at
// each, so what is tried is also reached.
var (
	outside = []string{"93.184.215.14", "2606:4700:4700::1111"}
	inside  = []string{
		"10.0.0.5", "172.16.0.9", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.170.2", "168.63.129.16",
		"100.100.100.200", "198.18.0.1", "fd00::5", "fd00:ec2::254", "fe80::1",
		"64:ff9b::a00:5", "64:ff9b:1::1", "2002:a00:5::1", "2001:0:a00:5::1", // NAT64, 6to4, Teredo
	}
)

// TestCallbacksReachNothingInside runs dev in a network of its own, in which the
// addresses that no callback may reach exist and somebody listens at all of them: private
// ones, a cloud's metadata service, IPv4 in IPv6. Users register callbacks in every
// spelling, DNS resolves public names to the inside, changes its answer between
// look-up and dial, and receivers redirect. Nothing inside gets a connection.
func TestCallbacksReachNothingInside(t *testing.T) {
	if file := os.Getenv(insideBinary); file != "" {
		callbacksInside(t, file)
		return
	}
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		t.Skip("makes a network")
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(resolv, []byte("nameserver 127.0.0.1\noptions timeout:1 attempts:2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const enter = `ip link set lo up
for a in $1; do ip addr add "$a" dev lo nodad 2>/dev/null || ip addr add "$a" dev lo; done
mount --bind "$2" /etc/resolv.conf
shift 2
exec "$@"`
	args := []string{"-m", "-n", "--kill-child"}
	if os.Getuid() != 0 {
		args = append(args, "-r") // a user namespace gives the rights for the other two
	}
	addresses := strings.Join(slices.Concat(outside, inside), " ")
	cmd := exec.Command("unshare", append(args, "bash", "-euc", enter, "bash", addresses, resolv,
		self, "-test.run=^TestCallbacksReachNothingInside$", "-test.v", "-test.timeout=3m")...)
	cmd.Env = append(os.Environ(), insideBinary+"="+file)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCallbacksReachNothingInside") {
		t.Fatalf("%v (it needs unshare and ip of Linux, and root or user namespaces)\n%s", err, out)
	}
	t.Logf("%s", out)
}

// network is who listens at all addresses, on some ports.
type network struct {
	t     *testing.T
	roots string // file of the certificate that those of https show

	mu    sync.Mutex
	conns map[string]int // by the address that was dialled
	dns   map[string][]string
	asked map[string]int
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{
		t: t, roots: filepath.Join(t.TempDir(), "roots.pem"), conns: map[string]int{},
		dns: map[string][]string{}, asked: map[string]int{},
	}
	cert := n.certificate()
	for _, port := range []int{80, 443, 22, 8443, 9000} {
		ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		var cfg *tls.Config
		if port == 443 || port == 8443 {
			cfg = &tls.Config{Certificates: []tls.Certificate{cert}}
		}
		go n.accept(ln, cfg)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	go n.resolve(udp)
	return n
}

func (n *network) certificate() tls.Certificate {
	n.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		n.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"*.example.com"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, a := range slices.Concat(outside, inside, []string{"127.0.0.1", "::1"}) {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(a))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		n.t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(n.roots, text, 0o600); err != nil {
		n.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (n *network) accept(ln net.Listener, cfg *tls.Config) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		at := conn.LocalAddr().(*net.TCPAddr).AddrPort()
		n.mu.Lock()
		n.conns[netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()]++
		n.mu.Unlock()
		if cfg != nil {
			conn = tls.Server(conn, cfg)
		}
		go n.answer(conn)
	}
}

// answer is 200; a path /to?url redirects there, /fail is 500. The connection ends
// behind it, so that the next request is dialled anew.
func (n *network) answer(conn net.Conn) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	switch path := req.URL.Path; {
	case strings.HasPrefix(path, "/to/"):
		status, to := strings.TrimPrefix(path, "/to/"), req.URL.Query().Get("u")
		fmt.Fprintf(conn, "HTTP/1.1 %s Moved\r\nLocation: %s\r\n", status, to)
	case path == "/fail":
		fmt.Fprint(conn, "HTTP/1.1 500 Not Yet\r\n")
	default:
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n")
	}
	fmt.Fprint(conn, "Content-Length: 0\r\nConnection: close\r\n\r\n")
}

// resolve answers with what n.dns says. A name with rounds, apart by "|", has
// another answer for each look-up; the last one stays.
func (n *network) resolve(conn net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		k, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:k]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		list, known := n.addresses(strings.TrimSuffix(q.Name.String(), "."), q.Type)
		if !known {
			m.RCode = dnsmessage.RCodeNameError
		}
		for _, text := range list {
			ip := netip.MustParseAddr(text)
			h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class} // TTL 0
			switch {
			case q.Type == dnsmessage.TypeA && ip.Is4():
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: ip.As4()}})
			case q.Type == dnsmessage.TypeAAAA && ip.Is6():
				m.Answers = append(m.Answers,
					dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
			}
		}
		if b, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(b, from)
		}
	}
}

func (n *network) addresses(name string, kind dnsmessage.Type) (list []string, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	rounds, known := n.dns[name]
	if !known {
		return nil, false
	}
	key := name + kind.String()
	at := min(n.asked[key], len(rounds)-1)
	n.asked[key]++
	return strings.Fields(rounds[at]), true
}

// name makes DNS know a name.
func (n *network) name(name string, rounds ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dns[name] = rounds
}

// reached are the addresses inside that somebody connected to; one of loopback is
// inside but for port 9000, where dev may call.
func (n *network) reached() (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for at, k := range n.conns {
		ap := netip.MustParseAddrPort(at)
		if !slices.Contains(outside, ap.Addr().String()) && (!ap.Addr().IsLoopback() || ap.Port() != 9000) {
			list = append(list, fmt.Sprintf("%s: %d", at, k))
		}
	}
	return list
}

// refusedURLs are spellings that no register may have, in dev.
var refusedURLs = []string{
	// Addresses inside, as they are.
	"https://10.0.0.5/", "https://172.16.0.9/", "https://192.168.1.1/", "https://100.64.0.1/",
	"https://169.254.169.254/latest/meta-data/", "https://169.254.170.2/v2/credentials", "https://168.63.129.16/",
	"https://100.100.100.200/", "https://198.18.0.1/", "https://[fd00::5]/", "https://[fd00:ec2::254]/",
	"https://[fe80::1]/", "https://[fe80::1%25lo]/", "http://0.0.0.0:9000/", "https://0.0.0.0/", "https://[::]/",
	// IPv4 in IPv6: mapped, compatible, NAT64, 6to4, Teredo.
	"https://[::ffff:10.0.0.5]/", "https://[::ffff:a9fe:a9fe]/", "http://[::ffff:127.0.0.1]:80/",
	"https://[::10.0.0.5]/", "https://[64:ff9b::a00:5]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[64:ff9b:1::1]/",
	"https://[2002:a00:5::1]/", "https://[2001:0:a00:5::1]/",
	// Addresses spelt for C libraries: decimal, octal, hexadecimal, short.
	"https://167772165/", "https://2852039166/", "https://012.0.0.5/", "https://0xa.0.0.5/", "https://0x0a000005/",
	"https://10.5/", "https://10.0.5/", "https://169.254.43518/", "https://0251.0376.0251.0376/", "https://10.0.0.5./",
	"http://2130706433:80/", "http://127.1:80/",
	// User info that looks like a host.
	"https://good.example.com@10.0.0.5/", "https://good.example.com:443@169.254.169.254/",
	"https://user:secret@good.example.com/", "https://@good.example.com/", `https://good.example.com\@10.0.0.5/`,
	"https://10.0.0.5#@good.example.com/", "https://10.0.0.5?@good.example.com/",
	"https://10.0.0.5%2f@good.example.com/",
	// Ports.
	"https://good.example.com:22/", "https://good.example.com:25/", "https://good.example.com:80/",
	"https://good.example.com:1023/", "https://good.example.com:0/", "https://good.example.com:65536/",
	"https://good.example.com:0443/", "https://good.example.com:-443/", "https://good.example.com:/",
	"https://good.example.com:443:443/",
	// Schemes.
	"http://good.example.com/", "http+unix://%2Fvar%2Frun%2Fdocker.sock/", "unix:///var/run/docker.sock",
	"file:///etc/passwd", "gopher://10.0.0.5:80/_GET", "ftp://10.0.0.5/", "ws://10.0.0.5/", "//10.0.0.5/",
	// Names of this network, and letters that a resolver folds.
	"https://metadata.google.internal/", "https://metadata/", "https://vault.service.internal/",
	"https://printer.local/",
	"https://１０.0.0.5/", "https://10。0。0。5/", "https://ⓖood.example.com/", "https://gööd.example.com/",
	// Line ends.
	"https://good.example.com/\r\nX-Evil: 1", "https://good.example.com\r\n@10.0.0.5/",
}

// callbacksInside is the test, in that network.
func callbacksInside(t *testing.T, file string) {
	n := newNetwork(t)
	kafka := built.FreeAddr(t)
	node := startAs(t, "dev", file, []string{
		"SSL_CERT_FILE=" + n.roots, "HTTP_PROXY=http://10.0.0.5:80", "HTTPS_PROXY=http://10.0.0.5:80",
		"http_proxy=http://10.0.0.5:80", "https_proxy=http://10.0.0.5:80",
	}, "dev", "--kafka-listen", kafka, "--data-dir", filepath.Join(t.TempDir(), "data"),
		"--set", "webhook.breaker.requests=100000")
	w := &world{
		name: "dev", brokers: []string{kafka}, prefix: "waterclock.", partitions: 4, node: node,
		flags: []string{"--brokers", kafka, "--url", "http://" + node.http},
	}
	node.ready(60 * time.Second)

	n.name("good.example.com", strings.Join(outside, " "))
	for _, name := range []string{"metadata.google.internal", "metadata", "vault.service.internal", "printer.local"} {
		n.name(name, "10.0.0.5")
	}
	n.refuses(w)
	want := n.registers(w)
	n.probes(w)
	got := map[string]string{}
	await(t, "every callback has ended", func() bool {
		clear(got)
		for key, events := range w.events(t) {
			if end := ending(events); end != "" {
				got[key] = end
			}
		}
		return len(got) >= len(want)
	})
	for key, end := range want {
		if got[key] != end {
			t.Errorf("%s ended with %s, want %s", key, got[key], end)
		}
	}
	if list := n.reached(); len(list) > 0 {
		t.Errorf("reached inside: %v", list)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns["93.184.215.14:443"]+n.conns["[2606:4700:4700::1111]:443"] == 0 || n.conns["127.0.0.1:9000"] == 0 {
		t.Errorf("what may be reached was not: %v", n.conns)
	}
	t.Logf("%d URLs refused, %d callbacks judged; connections %v", len(refusedURLs), len(want), n.conns)
}

// ending is how a callback's last occurrence ended: delivered, or the code of the
// failure.
func ending(events []topics.Event) string {
	for _, e := range events {
		switch trigger.FactType(e.Type) {
		case trigger.DeliveryDelivered:
			return "delivered"
		case trigger.DeadLettered:
			return e.Reason
		}
	}
	return ""
}

// refuses: what may not be registered is refused at both doors.
func (n *network) refuses(w *world) {
	t := n.t
	producer := w.producer(t)
	for i, u := range refusedURLs {
		body := fmt.Sprintf(`{"delay":"0s","callback":{"url":%q}}`, u)
		a := w.call(t, http.MethodPut, fmt.Sprintf("/v1/triggers/refused-%d", i), body)
		if a.status != http.StatusUnprocessableEntity || !refusal(a.str("code")) || a.str("field") != "callback" {
			t.Errorf("%q is answered %v", u, a)
		}
		text := fmt.Sprintf(`{"op":"register","delay":"0s","callback":{"url":%q}}`, u)
		if err := producer.ProduceSync(t.Context(), w.command(fmt.Sprintf("raw-%d", i), text)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "all are rejected by the engine, too", func() bool {
		rejected := 0
		for _, r := range dump(t, w.brokers, w.topic("rejected")) {
			if strings.HasPrefix(string(r.Key), "raw-") && refusal(header(r, "wc-error-code")) {
				rejected++
			}
		}
		return rejected >= len(refusedURLs)
	})
}

// refusal says that a code is one of a URL: not allowed, or no URL at all.
func refusal(code string) bool { return code == "forbidden_url" || code == "invalid" }

// registers makes callbacks that may be registered, and says how each must end.
func (n *network) registers(w *world) map[string]string {
	want := map[string]string{}
	register := func(key, u, end string) {
		a := w.call(n.t, http.MethodPut, "/v1/triggers/"+key,
			fmt.Sprintf(`{"delay":"0s","callback":{"url":%q,"timeout":"2s","retry":["100ms"]}}`, u))
		if a.status != http.StatusCreated {
			n.t.Fatalf("%s: %v", u, a)
		}
		want[key] = end
	}
	const address = "forbidden_address"
	register("good", "https://good.example.com/", "delivered")
	register("own", "http://127.0.0.1:9000/", "delivered")
	register("own-name", "http://localhost:9000/", "delivered")
	// Public names that resolve to the inside.
	more := []string{"127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:10.0.0.5", "::10.0.0.5"}
	for i, ip := range slices.Concat(inside, more) {
		name := fmt.Sprintf("n%d.example.com", i)
		n.name(name, ip)
		register(fmt.Sprintf("inside-%d", i), "https://"+name+"/", address)
		register(fmt.Sprintf("inside-port-%d", i), "https://"+name+":8443/", address)
	}
	n.name("all.example.com", strings.Join(inside, " "))
	register("all", "https://all.example.com/", address)
	// A name of dev's own machine that DNS leads elsewhere.
	n.name("x.localhost", "10.0.0.5")
	register("localhost-elsewhere", "http://x.localhost:9000/", address)
	// One forbidden answer among others is passed over.
	n.name("mixed.example.com", "10.0.0.5 169.254.169.254 "+outside[0])
	register("mixed", "https://mixed.example.com/", "delivered")
	// The first attempt is answered from outside; then DNS changes its answer.
	n.name("rebind.example.com", outside[0], "169.254.169.254")
	register("rebind", "https://rebind.example.com/fail", address)
	n.name("rebind-own.example.com", outside[0], "127.0.0.1 ::1")
	register("rebind-own", "https://rebind-own.example.com:8443/fail", address)
	// Redirects are answers.
	for i, to := range []string{
		"http://10.0.0.5/", "https://169.254.169.254/latest/meta-data/", "http://127.0.0.1:80/", "//192.168.1.1/",
		"https://[::ffff:10.0.0.5]/", "https://n0.example.com/", "http://user@10.0.0.5/", "file:///etc/passwd",
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			u := fmt.Sprintf("https://good.example.com/to/%d?u=%s", status, url.QueryEscape(to))
			register(fmt.Sprintf("redirect-%d-%d", i, status), u, "http_3xx")
		}
	}
	return want
}

// probes: the test of an endpoint looks the name up, and then dials. DNS has
// changed its answer in between.
func (n *network) probes(w *world) {
	t := n.t
	for i, ip := range []string{"169.254.169.254", "127.0.0.1", "10.0.0.5", "fd00:ec2::254", "64:ff9b::a00:5"} {
		name := fmt.Sprintf("probe%d.example.com", i)
		n.name(name, outside[0], ip)
		for _, send := range []bool{false, true} {
			a := w.call(t, http.MethodPost, "/v1/endpoints:test",
				fmt.Sprintf(`{"url":"https://%s/","send":%t}`, name, send))
			if a.status != http.StatusOK || strings.Contains(a.text, `"acknowledges":true`) {
				t.Errorf("%s, then %s: %v", outside[0], ip, a)
			}
		}
	}
	a := w.call(t, http.MethodPost, "/v1/endpoints:test", `{"url":"https://good.example.com/","send":true}`)
	if !strings.Contains(a.text, `"acknowledges":true`) {
		t.Errorf("a good endpoint: %v", a)
	}
	a = w.call(t, http.MethodPost, "/v1/endpoints:test",
		`{"url":"https://good.example.com/to/302?u=http%3A%2F%2F10.0.0.5%2F","send":true}`)
	if !strings.Contains(a.text, `"status":302`) {
		t.Errorf("a redirect: %v", a)
	}
}
