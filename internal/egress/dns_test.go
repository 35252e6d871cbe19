package egress_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers what the test says, and something else the next time.
type nameServer struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers map[string][][]string // the addresses of each look-up; the last stays
	asked   map[string]int        // look-ups of A
}

func startNameServer(t *testing.T, answers map[string][][]string) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, answers: answers, asked: map[string]int{}}
	var done sync.WaitGroup
	done.Go(s.serve)
	t.Cleanup(func() { conn.Close(); done.Wait() })
	return s
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) queries(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[name]
}

func (s *nameServer) serve() {
	buf := make([]byte, 4096)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		s.answer(&m)
		if b, err := m.Pack(); err == nil {
			_, _ = s.conn.WriteTo(b, from)
		}
	}
}

func (s *nameServer) answer(m *dnsmessage.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	rounds := s.answers[name]
	if len(rounds) == 0 {
		m.RCode = dnsmessage.RCodeNameError
		return
	}
	round := rounds[min(s.asked[name], len(rounds)-1)]
	if q.Type == dnsmessage.TypeA {
		s.asked[name]++
	}
	for _, text := range round {
		ip := netip.MustParseAddr(text)
		h := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class} // TTL 0
		switch {
		case q.Type == dnsmessage.TypeA && ip.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: ip.As4()}})
		case q.Type == dnsmessage.TypeAAAA && ip.Is6():
			m.Answers = append(
				m.Answers,
				dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}},
			)
		}
	}
}
