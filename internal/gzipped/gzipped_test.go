package gzipped

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"
)

// A caller gets gzip only if it says that it takes it.
func TestTaken(t *testing.T) {
	for _, c := range []struct {
		accepts []string
		want    bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"gzip"}, true},
		{[]string{"br, GZIP ;q=0.5"}, true},
		{[]string{"br", "gzip"}, true},
		{[]string{"gzip;q=0"}, false},
		{[]string{"gzip; q=0.000, br"}, false},
		{[]string{"*"}, true},
		{[]string{"*;q=0"}, false},
		{[]string{"*, gzip;q=0"}, false},
		{[]string{"gzip;q=0, *"}, false},
		{[]string{"identity"}, false},
		{[]string{"nogzip"}, false},
		{[]string{"gzip;q=much"}, false},
	} {
		if got := Taken(http.Header{"Accept-Encoding": c.accepts}); got != c.want {
			t.Errorf("%q: %v", c.accepts, got)
		}
	}
}

// What is compressed can be read again.
func TestBytes(t *testing.T) {
	want := bytes.Repeat([]byte("due "), 5000)
	small := Bytes(want, gzip.BestSpeed)
	r, err := gzip.NewReader(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) || len(small) > 1000 {
		t.Errorf("%d bytes became %d: %v", len(want), len(small), err)
	}
}
