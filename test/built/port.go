package built

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddr is an address of this machine that nobody listens at. Its port lies below those
// that the kernel gives to outgoing connections (Linux: from 32768). One of those may be taken
// by a client before the process that it is for listens there.
func FreeAddr(t testing.TB) string {
	t.Helper()
	var err error
	for range 100 {
		var ln net.Listener
		if ln, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))); err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal(err)
	return ""
}
