package egress_test

import (
	"io"
	"log"
	"os"
	"testing"
)

// Nothing here may take a proxy from the environment: nobody listens at this one,
// so a transport that asks it reaches nothing.
func TestMain(m *testing.M) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		_ = os.Setenv(name, "http://127.0.0.1:1")
	}
	os.Exit(m.Run())
}

// quiet is where servers tell of handshakes that were meant to fail.
var quiet = log.New(io.Discard, "", 0)
