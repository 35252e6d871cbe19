package loadtest

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// TestFar: an answer comes after the delay, whole, and the end of either side ends both.
func TestFar(t *testing.T) {
	const delay = 50 * time.Millisecond
	broker, served := net.Pipe()
	ended := make(chan error, 1)
	go func() { // answers what it gets
		_, err := io.Copy(served, served)
		ended <- err
	}()
	dial := far(func(context.Context, string, string) (net.Conn, error) { return broker, nil }, delay)
	c, err := dial(t.Context(), "tcp", "broker:9092")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "another"} {
		began := time.Now()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len(text))
		if _, err := io.ReadFull(c, answer); err != nil || string(answer) != text {
			t.Fatalf("%q, %v", answer, err)
		}
		if took := time.Since(began); took < delay {
			t.Errorf("%s is back after %s", text, took)
		}
	}
	c.Close()
	<-ended
}
