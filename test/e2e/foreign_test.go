package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/foreign"
)

// everyByte is a payload that no text survives.
var everyByte = func() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}()

// tale is one trigger of two clients: one registers it, the other ends or moves it.
type tale struct {
	key, by, then    string // names of the clients
	spelling, second string // of the register; of the command after it
	moves            bool   // the second reschedules; else it cancels
}

// tales are all pairs of clients, with each second command in each spelling.
func tales(clients []foreign.Client) (all []tale) {
	for i, a := range clients {
		for j, b := range clients {
			for k, second := range []string{"header cancel", "json cancel", "null", "header move", "json move"} {
				spelling := []string{"header", "json"}[(i+j+k)%2]
				all = append(all, tale{
					key: fmt.Sprintf("%s-%s-%s", a.Name(), b.Name(), strings.ReplaceAll(second, " ", "-")),
					by:  a.Name(), then: b.Name(),
					spelling: spelling, second: second, moves: strings.HasSuffix(second, "move"),
				})
			}
		}
	}
	return all
}

// register is the first command. What is cancelled would fire at due; what is
// moved would in an hour.
func (a *tale) register(topic string, due time.Time) foreign.Record {
	when, value := "fire_at", due.UTC().Format(time.RFC3339)
	if a.moves {
		when, value = "delay", "1h"
	}
	if a.spelling == "json" {
		return foreign.Record{
			Topic: topic, Key: []byte(a.key),
			Value: fmt.Appendf(nil, `{"op":"register","channel":"foreign","%s":"%s","payload":{"by":"%s"}}`, when,
				value, a.by),
		}
	}
	return foreign.Record{
		Topic: topic, Key: []byte(a.key), Value: fmt.Appendf(nil, `{"by":"%s"}`, a.by),
		Headers: []foreign.Header{
			{Key: "wc-channel", Value: []byte("foreign")},
			{Key: "wc-" + strings.ReplaceAll(when, "_", "-"), Value: []byte(value)},
		},
	}
}

func (a *tale) change(topic string) foreign.Record {
	r := foreign.Record{Topic: topic, Key: []byte(a.key)}
	switch a.second {
	case "header cancel":
		r.Value, r.Headers = []byte("cancel"), []foreign.Header{{Key: "wc-op", Value: []byte("cancel")}}
	case "json cancel":
		r.Value = []byte(`{"op":"cancel"}`)
	case "header move":
		r.Value, r.Headers = []byte("later"), []foreign.Header{
			{Key: "wc-op", Value: []byte("reschedule")},
			{Key: "wc-delay", Value: []byte("1s")},
		}
	case "json move":
		r.Value = []byte(`{"op":"reschedule","delay":"PT1S"}`)
	}
	return r
}

// produceAll lets every client write its records, all clients at once.
func produceAll(t *testing.T, w *world, clients []foreign.Client, recs map[string][]foreign.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			if err := c.Produce(ctx, w.bootstrap(), recs[c.Name()]); err != nil {
				t.Errorf("%s: %v", c.Name(), err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// TestForeignClients: what one client registers another cancels or moves,
// though they hash keys differently; and each reads what fired.
func TestForeignClients(t *testing.T) {
	t.Parallel()
	clients := foreign.Clients(t)
	both(t, func(t *testing.T, w *world) {
		topic, all := w.topic("commands"), tales(clients)
		due := time.Now().Add(time.Minute).Truncate(time.Second) // four runtimes begin until then
		first, second := map[string][]foreign.Record{}, map[string][]foreign.Record{}
		want := map[string][]byte{} // payload by key of what must fire
		for _, a := range all {
			first[a.by] = append(first[a.by], a.register(topic, due))
			second[a.then] = append(second[a.then], a.change(topic))
			if a.moves {
				want[a.key] = fmt.Appendf(nil, `{"by":"%s"}`, a.by)
			}
		}
		for _, c := range clients { // nobody changes these
			first[c.Name()] = append(first[c.Name()], foreign.Record{
				Topic: topic, Key: []byte("binary-" + c.Name()), Value: everyByte,
				Headers: []foreign.Header{
					{Key: "wc-delay", Value: []byte("1s")},
					{Key: "wc-channel", Value: []byte("foreign")},
					{Key: "note", Value: []byte("a=b, c=d")},
				},
			})
			want["binary-"+c.Name()] = everyByte
		}
		produceAll(t, w, clients, first)
		produceAll(t, w, clients, second)
		if left := time.Until(due); left < 0 {
			t.Fatalf("this machine took %v too long to cancel in time: nothing to judge", -left)
		}
		f := w.follow(t, "due.foreign")
		f.until(time.Minute, "all that must fire", func(recs []*kgo.Record) bool {
			return hasKeys(recs,
				slices.Collect(maps.Keys(want))...)
		})
		time.Sleep(time.Until(due.Add(2 * time.Second))) // what was cancelled would fire now
		judgeForeign(t, w, want)
		judgeTales(t, w, all)
		for _, c := range clients {
			t.Run(c.Name()+" reads", func(t *testing.T) { reads(t, w, c, want) })
		}
	})
}

// judgeForeign: what must fire did so once, with its payload; nothing else did.
func judgeForeign(t *testing.T, w *world, want map[string][]byte) {
	t.Helper()
	fired := map[string]int{}
	for _, r := range dump(t, w.brokers, w.topic("due.foreign")) {
		key := string(r.Key)
		if fired[key]++; fired[key] > 1 {
			t.Errorf("%s fired %d times", key, fired[key])
		}
		if payload, ok := want[key]; !ok {
			t.Errorf("%s fired although it was cancelled", key)
		} else if string(payload) != string(r.Value) {
			t.Errorf("%s fired with payload %q", key, r.Value)
		}
	}
	for key := range want {
		if fired[key] == 0 {
			t.Errorf("%s never fired", key)
		}
	}
	if rejected := dump(t, w.brokers, w.topic("rejected")); len(rejected) > 0 {
		t.Errorf("%d commands rejected, the first %s: %s", len(rejected), rejected[0].Key,
			header(rejected[0], "wc-error-detail"))
	}
}

func judgeTales(t *testing.T, w *world, all []tale) {
	t.Helper()
	events := w.events(t)
	for _, a := range all {
		want := "[trigger.registered trigger.cancelled]"
		if a.moves {
			want = "[trigger.registered trigger.rescheduled occurrence.fired]"
		}
		if got := fmt.Sprint(types(events[a.key])); got != want {
			t.Errorf("%s (%s, then %s): events %s, want %s", a.key, a.spelling, a.second, got, want)
		}
	}
}

// reads checks the due events as one client sees them.
func reads(t *testing.T, w *world, c foreign.Client, want map[string][]byte) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	recs, err := c.Consume(ctx, w.bootstrap(), w.topic("due.foreign"), len(want))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		key := string(r.Key)
		if payload, ok := want[key]; !ok || string(payload) != string(r.Value) {
			t.Errorf("%s: payload %q", key, r.Value)
		}
		dueHeaders(t, key, r)
	}
}

// dueHeaders checks names, order and values against docs/formats/due.md.
func dueHeaders(t *testing.T, key string, r foreign.Record) {
	t.Helper()
	const instant = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
	patterns := [][2]string{
		{"ce_specversion", `1\.0`},
		{"ce_id", regexp.QuoteMeta(key) + "@" + instant + "#0"},
		{"ce_source", `/waterclock/\S+`},
		{"ce_type", `waterclock\.due\.v1`},
		{"ce_subject", regexp.QuoteMeta(key)},
		{"ce_time", instant},
		{"ce_wcfired", instant},
		{"ce_wcrevision", `[12]`},
		{"ce_wcattempt", "1"},
		{"ce_wcstep", "0"},
		{"ce_wcbasis", `\d+\.\d+\.\d+\.\d+\.\d+`},
		{"content-type", "application/json"},
	}
	if strings.HasPrefix(key, "binary-") {
		patterns[len(patterns)-1][1] = "application/octet-stream"
		patterns = append(patterns, [2]string{"note", "a=b, c=d"})
	}
	var names []string
	for _, h := range r.Headers {
		names = append(names, h.Key)
	}
	var wanted []string
	for _, p := range patterns {
		wanted = append(wanted, p[0])
		if !regexp.MustCompile("^(?:" + p[1] + ")$").MatchString(r.Header(p[0])) {
			t.Errorf("%s: %s is %q, want %s", key, p[0], r.Header(p[0]), p[1])
		}
	}
	if !slices.Equal(names, wanted) {
		t.Errorf("%s: headers %v, want %v", key, names, wanted)
	}
	if at, err := time.Parse(time.RFC3339, r.Header("ce_time")); err != nil || r.Timestamp < at.UnixMilli() {
		t.Errorf("%s: appended at %d, before its ce_time %s", key, r.Timestamp, r.Header("ce_time"))
	}
}

// paste runs a line as a person would, with waterclock on the path.
func paste(t *testing.T, line string) string {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(file)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// TestContractLines runs the two lines of docs/formats/commands.md, with our
// broker's address and topic in place of the default's.
func TestContractLines(t *testing.T) {
	t.Parallel()
	foreign.Clients(t)
	both(t, func(t *testing.T, w *world) {
		ours := strings.NewReplacer("localhost:9092", w.brokers[0], "waterclock.commands", w.topic("commands"))
		events := w.follow(t, "events")
		logged := func(kind string) func([]*kgo.Record) bool {
			return func(recs []*kgo.Record) bool {
				return slices.ContainsFunc(recs, func(r *kgo.Record) bool {
					return strings.Contains(string(r.Value),
						`"`+kind+`"`)
				})
			}
		}
		paste(t,
			ours.Replace(`echo '{"holdId":"h_8c4"}' | kcat -P -b localhost:9092 -t waterclock.commands -k hold-8c4 -X topic.partitioner=murmur2_random -H wc-delay=7m -H wc-channel=orders`))
		events.until(20*time.Second, "the register", logged("trigger.registered"))
		a := w.call(t, http.MethodGet, "/v1/triggers/hold-8c4", "")
		at, err1 := time.Parse(time.RFC3339, a.str("fire_at"))
		made, err2 := time.Parse(time.RFC3339, a.str("created_at"))
		if err1 != nil || err2 != nil || at.Sub(made) != 7*time.Minute || a.str("state") != "PENDING" ||
			a.str("channel") != "orders" {
			t.Errorf("after the first line: %v", a)
		}
		if payload, _ := a.body["payload"].(map[string]any); payload["holdId"] != "h_8c4" {
			t.Errorf("payload: %v", a.body["payload"])
		}
		paste(t,
			ours.Replace(`echo cancel               | kcat -P -b localhost:9092 -t waterclock.commands -k hold-8c4 -X topic.partitioner=murmur2_random -H wc-op=cancel`))
		events.until(20*time.Second, "the cancel", logged("trigger.cancelled"))
		if a := w.call(t, http.MethodGet, "/v1/triggers/hold-8c4", ""); a.str("state") != "CANCELLED" {
			t.Errorf("after the second line: %v", a)
		}
	})
}

// TestBannerLines runs what dev tells a new user to paste, to the letter.
func TestBannerLines(t *testing.T) {
	t.Parallel()
	foreign.Clients(t)
	w := newDevWorld(t)
	var lines []string
	deadline := time.Now().Add(10 * time.Second)
	for len(lines) < 3 && time.Now().Before(deadline) { // it is printed behind /readyz
		log, err := os.ReadFile(w.node.log)
		if err != nil {
			t.Fatal(err)
		}
		lines = nil
		for line := range strings.Lines(string(log)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "waterclock ") ||
				strings.Contains(line, "| kcat ") {
				lines = append(lines, line)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	if len(lines) != 3 {
		t.Fatalf("the banner's lines: %q", lines)
	}
	if out := paste(t, lines[0]); !strings.Contains(out, "occurrence.fired") {
		t.Errorf("%s\n%s", lines[0], out)
	}
	paste(t, lines[1])
	out := paste(t, lines[2]+" --from-beginning -n 2 -o ndjson 2>/dev/null")
	var keys []string
	for line := range strings.Lines(out) {
		var due struct {
			Key   string
			Value map[string]any
		}
		if err := json.Unmarshal([]byte(line), &due); err != nil || due.Value["say"] != "tea is ready" {
			t.Errorf("due line %s: %v", line, err)
		}
		keys = append(keys, due.Key)
	}
	if slices.Sort(keys); !slices.Equal(keys, []string{"tea", "tea2"}) {
		t.Errorf("fired: %v\n%s", keys, out)
	}
}
