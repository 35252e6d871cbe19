package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/preferences"
)

// doorman asks each connection for its password, notes user and password, and closes it.
func doorman(t *testing.T) (addr string, heard <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	all := make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if user, password, err := ask(c); err == nil {
				all <- user + ":" + password
			}
			c.Close()
		}
	}()
	return l.Addr().String(), all
}

// ask reads the start-up packet, and the password in clear text.
func ask(c net.Conn) (user, password string, err error) {
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	start, err := packet(c)
	if err != nil {
		return "", "", err
	}
	_, after, _ := strings.Cut(string(start[4:]), "user\x00")
	user, _, _ = strings.Cut(after, "\x00")
	if _, err := c.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}); err != nil {
		return "", "", err
	}
	var kind [1]byte
	if _, err := io.ReadFull(c, kind[:]); err != nil {
		return "", "", err
	}
	said, err := packet(c)
	return user, strings.TrimRight(string(said), "\x00"), err
}

func packet(c net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:])-4)
	_, err := io.ReadFull(c, b)
	return b, err
}

// A connection logs in with the user and password that are current when it is opened. What is no URL, or one of
// another database, leaves them in force.
func TestRotate(t *testing.T) {
	addr, heard := doorman(t)
	s, err := New(Options{URL: "postgres://u:old@" + addr + "/x?sslmode=disable", Within: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	next := func(want string) {
		t.Helper()
		for len(heard) > 0 {
			<-heard
		}
		_, _ = s.Get(t.Context(), []preferences.User{{Tenant: "default", ID: "u"}})
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("a connection logs in as %s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("no connection")
		}
	}
	next("u:old")
	if err := s.Rotate("postgres://u:new@" + addr + "/x?sslmode=disable"); err != nil {
		t.Fatal(err)
	}
	next("u:new")
	for _, bad := range []string{
		"postgres://u:evil@" + addr + "/y", "postgres://u:evil@[::1", "postgres://u:evil@a.example/x",
		"postgres://u:evil@" + addr + "/x?sslmode=require",
		"postgres://u:evil@" + addr + ",b.example/x?sslmode=disable",
		"postgres://" + addr + "/x?sslmode=disable",
	} {
		if err := s.Rotate(bad); err == nil || strings.Contains(err.Error(), "evil") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	next("u:new")
	if err := s.Rotate("postgres://second:newer@" + addr + "/x?sslmode=disable"); err != nil {
		t.Fatal(err)
	}
	next("second:newer")
}
