// Command receiver is where a webhook may lead while you try things: it prints
// what comes. It does not verify signatures; docs/api/webhooks.md has programs
// that do.
//
//	go run ./examples/receiver -fail 2
//	waterclock schedule pills --in 2s --callback-url http://127.0.0.1:9000/ --data '{"say":"take pills"}'
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "address to listen on")
	fail := flag.Int("fail", 0, "answer 500 to so many calls of each webhook-id first")
	flag.Parse()
	server := &http.Server{Addr: *listen, Handler: receive(*fail), ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("listening on http://%s/\n", *listen)
	log.Fatal(server.ListenAndServe())
}

// receive prints each call and what it was answered.
func receive(fail int) http.Handler {
	var mu sync.Mutex
	calls := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		id, status := r.Header.Get("webhook-id"), http.StatusNoContent
		if calls[id]++; calls[id] <= fail {
			status = http.StatusInternalServerError
		}
		fmt.Printf("attempt %s of %s: %s → %d\n", r.Header.Get("X-Trigger-Attempt"), r.Header.Get("X-Trigger-Id"), body,
			status)
		w.WriteHeader(status)
	})
}
