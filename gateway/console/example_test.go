package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/waterclock/waterclock/gateway/console"
)

// The console stands in front of the API, which answers every other path.
func ExampleNew() {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the API: ", r.URL.Path) })
	handler, err := console.New(console.Options{
		API: api, Secrets: func() [][]byte { return [][]byte{[]byte("a secret of the cluster")} },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{console.Root, "/v1/triggers"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Println(path, w.Code, w.Header().Get("Content-Type"))
	}
	// Output:
	// /console/ 200 text/html; charset=utf-8
	// /v1/triggers 200 text/plain; charset=utf-8
}
