package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/broker"
)

// cluster starts n nodes on an embedded broker and returns their URLs.
func cluster(t *testing.T, n int) (urls []string) {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Options{
		Dir: filepath.Join(t.TempDir(), "broker"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	for range n {
		ctx, stop := context.WithCancel(context.Background())
		c, ended := serve(ctx, t, "WATERCLOCK_BROKERS="+b.Addr(), "WATERCLOCK_TOPICS_PARTITIONS=4")
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		urls = append(urls, "http://"+c.Listen)
	}
	for _, url := range urls {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if status, _ := call(t, "GET", url+"/readyz", ""); status == http.StatusOK {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(url + " is not ready")
			}
		}
	}
	return urls
}

// call sends a request. It returns status 0 if there is no answer.
func call(t *testing.T, method, url, body string) (status int, answer string) {
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// Registers on other nodes race with the delete of their calendar. Either the delete is refused
// and the calendar still exists, or no trigger names it and none can.
func TestDeleteCalendarWhileOthersRegister(t *testing.T) {
	urls := cluster(t, 2)
	const register = `{"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00","calendars":{"names":["us"],"on":"skip"}}`
	seen := map[int]int{}
	for round := range 24 {
		if status, body := call(t, "PUT", urls[0]+"/v1/calendars/us",
			`{"dates":["2060-01-01"]}`); status != http.StatusOK {
			t.Fatalf("put: %d %s", status, body)
		}
		var registers sync.WaitGroup
		registers.Go(func() {
			time.Sleep(time.Duration(round%8) * 4 * time.Millisecond)
			for i := range 8 {
				_, _ = call(t, "PUT", fmt.Sprintf("%s/v1/triggers/r%d-%d", urls[i%2], round, i), register)
			}
		})
		deleted, body := call(t, "DELETE", urls[round%2]+"/v1/calendars/us", "")
		registers.Wait()
		seen[deleted]++
		left := naming(t, urls[0])
		there, _ := call(t, "GET", urls[0]+"/v1/calendars/us", "")
		switch {
		case deleted == http.StatusOK && (len(left) > 0 || there != http.StatusNotFound):
			t.Fatalf("round %d: it is deleted, GET answers %d, and %v name it", round, there, left)
		case deleted == http.StatusConflict && there != http.StatusOK:
			t.Fatalf("round %d: the delete is refused (%s), and GET answers %d", round, body, there)
		case deleted != http.StatusOK && deleted != http.StatusConflict:
			t.Fatalf("round %d: %d %s", round, deleted, body)
		}
		for _, id := range left {
			if status, body := call(t, "DELETE", urls[1]+"/v1/triggers/"+id, ""); status != http.StatusOK {
				t.Fatalf("cancel %s: %d %s", id, status, body)
			}
		}
	}
	t.Logf("answers: %v", seen)
	if seen[http.StatusOK] == 0 || seen[http.StatusConflict] == 0 {
		t.Errorf("the race was never won or never lost: %v", seen)
	}
}

// naming returns the ids of the triggers that have not ended.
func naming(t *testing.T, url string) (ids []string) {
	t.Helper()
	_, body := call(t, "GET", url+"/v1/triggers?state=PENDING,PAUSED,IN_FLIGHT&limit=1000", "")
	var page struct {
		Items []struct {
			ID string `json:"trigger_id"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, item := range page.Items {
		ids = append(ids, item.ID)
	}
	return ids
}
