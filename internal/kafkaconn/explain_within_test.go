package kafkaconn

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
)

// A port that takes connections and never answers costs no more time than it may.
func TestConnectToAFrozenBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &config.Config{Brokers: []string{"127.0.0.1:9092"}}
		opts, err := Options(c, "test", nil)
		if err != nil {
			t.Fatal(err)
		}
		opts = append(opts, kgo.Dialer(func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		}))
		const within = 3 * time.Second
		begun := time.Now()
		_, err = Connect(t.Context(), c, within, opts...)
		wantError(t, err, "no broker answers at 127.0.0.1:9092")
		if took := time.Since(begun); took != within {
			t.Errorf("it took %v, may take %v", took, within)
		}
	})
}
