package loadtest

import (
	"context"
	"net"
	"time"
)

type dialer func(ctx context.Context, network, host string) (net.Conn, error)

// far delays all that brokers answer, as if they were that far away.
func far(dial dialer, delay time.Duration) dialer {
	if delay == 0 {
		return dial
	}
	return func(ctx context.Context, network, host string) (net.Conn, error) {
		broker, err := dial(ctx, network, host)
		if err != nil {
			return nil, err
		}
		near, inner := net.Pipe()
		go carry(broker, inner, 0)
		go carry(inner, broker, delay)
		return near, nil
	}
}

// chunk is what was read at once, and when it arrives.
type chunk struct {
	bytes []byte
	at    time.Time
}

// carry copies from one connection to another until one of them ends, and closes both. What is on its way is bounded
// by 64 chunks of 64 KiB.
func carry(to, from net.Conn, delay time.Duration) {
	way := make(chan chunk, 64)
	go func() {
		defer close(way)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if n > 0 {
				way <- chunk{b[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	failed := false
	for c := range way { // also once writing has failed: the reader must not wait
		time.Sleep(time.Until(c.at))
		if !failed {
			_, err := to.Write(c.bytes)
			failed = err != nil
		}
		if failed {
			from.Close()
		}
	}
	from.Close()
	to.Close()
}
