package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestDial: clients within the process write and read side by side with those
// that come over the network, more than a connection's buffer at a time.
func TestDial(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 2)
	big := bytes.Repeat([]byte("0123456789abcdef"), innerBuffer/4)
	clients := map[string]*kgo.Client{"inside": client(t, b, kgo.Dialer(b.Dial)), "outside": client(t, b)}
	var wg sync.WaitGroup
	for name, cl := range clients {
		wg.Go(func() {
			for i := range int32(20) {
				produce(t, cl, &kgo.Record{Topic: "a", Partition: i % 2, Key: []byte(name), Value: big})
			}
		})
	}
	wg.Wait()
	for _, opts := range [][]kgo.Opt{nil, {kgo.Dialer(b.Dial)}} {
		for p := range int32(2) {
			got := read(t, b, "a", p, opts...)
			if len(got) != 20 {
				t.Fatalf("partition %d has %d records, want 20", p, len(got))
			}
			for _, r := range got {
				if !bytes.Equal(r.Value, big) {
					t.Fatalf("a value of %d bytes differs", len(r.Value))
				}
			}
		}
	}
}

// TestDialWhileRestarting: clients within the process outlive a restart in
// place, and what was acknowledged to them does.
func TestDialWhileRestarting(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	cl := client(t, b, kgo.Dialer(b.Dial), kgo.TransactionalID("x"))
	var want []string
	for i := range 5 {
		value := fmt.Sprint(i)
		transact(t, cl, true, rec("a", 0, "k"+value, value))
		want = append(want, value)
		if err := b.restart(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	wantValues(t, read(t, b, "a", 0, committed(), kgo.Dialer(b.Dial)), want...)
}

// TestDialNobody: a broker that does not serve refuses, as the network does.
func TestDialNobody(t *testing.T) {
	b := start(t, t.TempDir())
	c, err := b.Dial(t.Context(), "tcp", "anywhere:1")
	if err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection of a closed broker reads %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection of a closed broker writes %v", err)
	}
	var refused *os.SyscallError
	var op *net.OpError
	if _, err := b.Dial(t.Context(), "tcp", "anywhere:1"); !errors.As(err, &op) || op.Op != "dial" ||
		!errors.As(err, &refused) {
		t.Errorf("a closed broker is dialed with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Dial(ctx, "tcp", "anywhere:1"); err == nil {
		t.Error("dialed for nobody")
	}
}

// TestConnectWhileRestarting: who connects over the network during a restart in place waits, and is not refused.
func TestConnectWhileRestarting(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	restarted := make(chan error)
	go func() {
		var err error
		for range 20 {
			err = errors.Join(err, b.restart(t.Context(), nil))
		}
		restarted <- err
	}()
	for n := 0; ; n++ {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatalf("connection %d: %v", n, err)
		}
		c.Close()
		select {
		case err := <-restarted:
			if err != nil || n == 0 {
				t.Errorf("%d connections, %v", n, err)
			}
			wantEnds(t, b, 0, 0)
			return
		default:
		}
	}
}
