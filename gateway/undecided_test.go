package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// While another tenant writes, the lines of one tenant's batches that nobody has
// decided yet are few: the others' commands stand behind them in the same log. Alone
// it has more. In the end every line has its answer, in order.
func TestBatchBesideOthers(t *testing.T) {
	const lines, room, alone = 300, 20, 110
	async := []string{"Prefer", "respond-async"}
	for _, c := range []struct {
		name   string
		others bool
		header []string
	}{
		{"alone", false, nil},
		{"alone, and it waits for nothing", false, async},
		{"beside others", true, nil},
		{"beside others, and it waits for nothing", true, async},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Now()
			w := newWorld(t, func(o *Options) {
				o.Auth, o.CommandsBeside, o.CommandsAlone = testKeys(t), room, alone
				o.Now = func() time.Time { return now }
				o.AnswerWithin = 10 * time.Second
			})
			if c.others {
				w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""), "Authorization", "Bearer "+keyB)
			}
			w.engine.freeze()
			var text strings.Builder
			for i := range lines {
				fmt.Fprintf(&text, `{"id":"l%d","delay":"1d"}`+"\n", i)
			}
			done := make(chan []answer)
			go func() {
				var all []answer
				for range 2 { // the second begins when the first is answered: at once, if it waits for nothing
					all = append(all, w.call("POST", "/v1/triggers:batch", text.String(),
						append(c.header, "Authorization", "Bearer "+keyA)...))
				}
				done <- all
			}()
			most := map[bool]int{false: alone, true: room}[c.others]
			if written := w.written(t, "acme/", most); written != most {
				t.Errorf("%d lines are written and not decided; room is for %d", written, most)
			}
			w.engine.thaw()
			for _, a := range <-done {
				got := strings.Split(strings.TrimSpace(a.body), "\n")
				if a.status != http.StatusOK || len(got) != lines {
					t.Fatalf("%d, %d answers", a.status, len(got))
				}
				for i, line := range got {
					if !strings.Contains(line, fmt.Sprintf(`"id":"l%d","status":20`, i)) {
						t.Fatalf("answer %d is %s", i, line)
					}
				}
			}
		})
	}
}

// So are the single commands of one tenant, and what somebody wrote who has hung up: it is in
// the others' way all the same.
func TestCommandsBesideOthers(t *testing.T) {
	const beside, alone, commands = 20, 30, 60
	async := []string{"Prefer", "respond-async"}
	single := func(i int) (method, path, body string) {
		return "PUT", fmt.Sprintf("/v1/triggers/s%d", i), `{"delay":"1d"}`
	}
	batch := func(i int) (method, path, body string) {
		var text strings.Builder
		for j := range beside {
			fmt.Fprintf(&text, `{"id":"b%d-%d","delay":"1d"}`+"\n", i, j)
		}
		return "POST", "/v1/triggers:batch", text.String()
	}
	for _, c := range []struct {
		name    string
		others  bool
		atOnce  int
		request func(i int) (method, path, body string)
		header  []string
		hangUp  bool
	}{
		{"single", true, commands, single, nil, false},
		{"single, and it waits for nothing", true, commands, single, async, false},
		{"single, and it hangs up", true, commands, single, nil, true},
		{"a batch, and it hangs up", true, 1, batch, nil, true},
		{"alone", false, commands, single, nil, false},
		{"alone, and it waits for nothing", false, commands, single, async, false},
		{"alone, and it hangs up", false, commands, single, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Now()
			w := newWorld(t, func(o *Options) {
				o.Auth, o.CommandsBeside, o.CommandsAlone = testKeys(t), beside, alone
				o.Now = func() time.Time { return now }
				o.AnswerWithin, o.ProduceWithin = time.Minute, time.Minute
			})
			room := alone
			if c.others {
				room = beside
				w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""), "Authorization", "Bearer "+keyB)
			}
			w.engine.freeze()
			var all sync.WaitGroup
			var answered atomic.Int64
			send := func(ctx context.Context, from int) {
				for i := range c.atOnce {
					method, path, body := c.request(from + i)
					req, _ := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
					req.Header.Set("Authorization", "Bearer "+keyA)
					if c.header != nil {
						req.Header.Set(c.header[0], c.header[1])
					}
					all.Go(func() {
						resp, err := http.DefaultClient.Do(req)
						if err != nil {
							return
						}
						defer resp.Body.Close()
						if _, err := io.Copy(io.Discard, resp.Body); err == nil && resp.StatusCode < 300 {
							answered.Add(1)
						}
					})
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			send(ctx, 0)
			if got := w.written(t, "acme/", room); got != room {
				t.Errorf("%d commands are written and not decided; room is for %d", got, room)
			}
			if c.hangUp {
				cancel()
				all.Wait()
				send(t.Context(), c.atOnce)
				if got := w.written(t, "acme/", room); got != room {
					t.Errorf("after a hang-up %d commands are written and not decided; room is for %d", got, room)
				}
			}
			w.engine.thaw()
			all.Wait()
			if got := int(answered.Load()); got != c.atOnce {
				t.Errorf("%d of %d requests are answered in the end", got, c.atOnce)
			}
		})
	}
}

// So are what a user's new zone and the erasure of users write. In the end all of it is done.
func TestMovesAndErasuresBesideOthers(t *testing.T) {
	const beside, triggers = 20, 60
	const body = `{"fire_at":"2060-07-01T09:00","follow_user":true,` + berlin + "}"
	bearer := []string{"Authorization", "Bearer " + keyA}
	for _, c := range []struct {
		name  string
		begin func(w *world)
		done  func(w *world) bool
	}{
		{
			"moves", func(w *world) {
				w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"timezone":"Asia/Tokyo"}`, bearer...)
				runMoves(t, w.server)
			}, func(w *world) bool {
				n, err := w.server.opts.Preferences.Moves(t.Context())
				return n == 0 && err == nil
			},
		},
		{
			"erasures", func(w *world) {
				w.must(http.StatusAccepted, "DELETE", "/v1/users/ada", "", bearer...)
				runErasures(t, w.server)
			}, func(w *world) bool {
				n, _, err := w.server.opts.Preferences.PendingErasures(t.Context())
				return n == 0 && err == nil
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Now()
			w := newWorld(t, func(o *Options) {
				o.Auth, o.CommandsBeside, o.Preferences = testKeys(t), beside, testStore(t)
				o.Now = func() time.Time { return now }
				o.AnswerWithin = time.Minute
			})
			for i := range triggers {
				w.must(http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/m%d", i), body, bearer...)
			}
			w.must(http.StatusCreated, "PUT", "/v1/triggers/t", at(""), "Authorization", "Bearer "+keyB)
			w.engine.freeze()
			c.begin(w)
			if got := w.written(t, "acme/", triggers+beside) - triggers; got != beside {
				t.Errorf("%d commands are written and not decided; room is for %d", got, beside)
			}
			w.engine.thaw()
			eventually(t, "its end", func() bool { return c.done(w) })
			if got := w.written(t, "acme/", 2*triggers) - triggers; got != triggers {
				t.Errorf("%d commands were written about %d triggers", got, triggers)
			}
		})
	}
}

// written is how many commands about keys with a prefix are in the log, once there are as many as
// are wanted and no more come. It gives up on more after a minute of silence.
func (w *world) written(t *testing.T, prefix string, want int) (n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.ConsumeTopics(w.server.opts.Names.Commands()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	silence := time.Minute
	for last := time.Now(); time.Since(last) < silence; {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if last = time.Now(); strings.HasPrefix(string(r.Key), prefix) {
				n++
			}
		})
		cancel()
		if n >= want {
			silence = 500 * time.Millisecond
		}
	}
	return n
}
