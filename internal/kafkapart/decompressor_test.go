package kafkapart

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A Reader has its client's bound on what a batch may take, not kgo's of 1 GiB.
func TestReaderHasItsClientsDecompressor(t *testing.T) {
	errBound := errors.New("too much")
	cl, err := kgo.NewClient(kgo.WithDecompressor(refusing{errBound}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := NewReader(cl).Decompressor().Decompress(nil, kgo.CodecGzip); !errors.Is(err, errBound) {
		t.Errorf("got %v", err)
	}
	plain, err := kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	got, err := NewReader(plain).Decompressor().Decompress([]byte("x"), kgo.CodecNone)
	if string(got) != "x" || err != nil {
		t.Errorf("of a client without a bound: %q, %v", got, err)
	}
}

type refusing struct{ err error }

func (r refusing) Decompress([]byte, kgo.CompressionCodecType) ([]byte, error) { return nil, r.err }
