package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Who erases a user of whom there was nothing has perhaps mistyped the id.
func TestEraseOfNobody(t *testing.T) {
	for triggers, noted := range map[int]bool{0: true, 2: false} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, `{"state":"pending","triggers":0}`)
				return
			}
			_, _ = fmt.Fprintf(w, `{"state":"done","triggers":%d}`, triggers)
		}))
		defer api.Close()
		r := cli(t, nil, "", "erase", "--user", "u_8I", "--wait", "--url", api.URL)
		r.want(t, exitOK, "done")
		if got := strings.Contains(r.err, "No trigger of user u_8I was found"); got != noted {
			t.Errorf("%d triggers: %q", triggers, r.err)
		}
		if r = cli(t, nil, "", "erase", "--user", "u_8I", "--url", api.URL); r.code != exitOK || r.err != "" {
			t.Errorf("without --wait: %d, %q", r.code, r.err)
		}
	}
}
