package decompress

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/rawbatch"
)

// TestLower: with less memory, less fits together. One batch always fits, so that nobody stands still.
func TestLower(t *testing.T) {
	b, err := New(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	b.Lower(1<<20, 6<<20)
	b.Lower(0, 0)
	large := records(t, "zstd", rawbatch.Record{Large: "value", Zeros: 5 << 20})
	little := records(t, "zstd", rawbatch.Record{Large: "value", Zeros: 400 << 10})
	reader := func() func(src []byte) error {
		r := b.Reader()
		r.pause = 0
		t.Cleanup(r.Close)
		return func(src []byte) error { _, err := r.Decompress(src, number("zstd")); return err }
	}
	one, another := reader(), reader()
	if err := one(large); err != nil {
		t.Errorf("one that is larger than a fetch: %v", err)
	}
	if err := another(large); !errors.Is(err, ErrLater) {
		t.Errorf("another one, while the process has 5 of 6 MiB: %v", err)
	}
	for i, want := range []error{nil, nil, ErrLater} {
		if err := another(little); !errors.Is(err, want) {
			t.Errorf("%d times 400 KiB, of 1 MiB: %v, want %v", i+1, err, want)
		}
	}
}

// TestLowerShared: what clients of a process hold together waits for the collector sooner.
func TestLowerShared(t *testing.T) {
	b, err := New(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	s := b.Shared()
	s.maxWait, s.pause = 50*time.Millisecond, 10*time.Millisecond
	src := records(t, "zstd", rawbatch.Record{Large: "value", Zeros: 5 << 20})
	s.Lower(6 << 20)
	first, err := s.Decompress(src, number("zstd"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Decompress(src, number("zstd")); !errors.Is(err, ErrLater) {
		t.Errorf("5 of 6 MiB are held: %v", err)
	}
	runtime.KeepAlive(first)
	s.maxWait = 10 * time.Second
	if _, err := s.Decompress(src, number("zstd")); err != nil {
		t.Errorf("nothing is held: %v", err)
	}
}
