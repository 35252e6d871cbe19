package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/topics"
)

// world is one Waterclock as its users meet it: dev, or serve on a real broker.
type world struct {
	name       string
	brokers    []string
	prefix     string
	partitions int32
	node       *process
	others     []*process // more instances: each call goes to any of them
	cluster    *cluster   // nil: dev
	flags      []string   // what the command line needs to find it
}

// both tells the same story to dev and to serve on a real broker, side by side.
func both(t *testing.T, story func(t *testing.T, w *world), more ...string) {
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		story(t, newDevWorld(t, more...))
	})
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		story(t, newServeWorld(t, "engine,api", more...))
	})
}

func newDevWorld(t *testing.T, more ...string) *world {
	t.Helper()
	return newDevWorldIn(t, nil, more...)
}

// newDevWorldIn is newDevWorld with more in the environment.
func newDevWorldIn(t *testing.T, env []string, more ...string) *world {
	t.Helper()
	kafka := built.FreeAddr(t)
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"dev", "--kafka-listen", kafka, "--data-dir", filepath.Join(t.TempDir(), "data")}, more...)
	w := &world{
		name: "dev", brokers: []string{kafka}, prefix: "waterclock.", partitions: 4,
		node: startAs(t, "dev", file, env, args...),
	}
	w.flags = []string{"--brokers", kafka, "--url", "http://" + w.node.http}
	w.node.ready(60 * time.Second)
	return w
}

// newServeWorld is one node on topics of its own.
func newServeWorld(t *testing.T, roles string, more ...string) *world {
	t.Helper()
	c := newCluster(t, 4)
	w := &world{name: "serve", brokers: c.brokers, prefix: c.prefix, partitions: 4, cluster: c}
	w.node = start(t, "serve", append(append([]string{"serve", "--roles", roles, "--data-dir", t.TempDir()}, c.args...),
		more...)...)
	w.flags = append(c.global(), "--url", "http://"+w.node.http)
	w.node.ready(60 * time.Second)
	return w
}

func (w *world) topic(name string) string { return w.prefix + name }

// bootstrap is the brokers as one word.
func (w *world) bootstrap() string { return strings.Join(w.brokers, ",") }

// newName is a name nobody else has, for worlds that share a broker.
func newName(prefix string) string { return fmt.Sprintf("%s%x", prefix, rand.Uint32()) }

// cli calls the command line and returns what it printed and its exit code.
func (w *world) cli(t *testing.T, args ...string) (out string, code int, stderr string) {
	t.Helper()
	return waterclock(t, "", w.line(args)...)
}

// waterclock is one call of the command line, with something on standard input.
func waterclock(t *testing.T, stdin string, args ...string) (stdout string, code int, stderr string) {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, args...)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		t.Fatalf("waterclock %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode(), errs.String()
}

// line puts where this world is before what is asked, so that what is asked may
// say it otherwise. Completion by a shell knows no such flags.
func (w *world) line(args []string) []string {
	if len(args) > 0 && strings.HasPrefix(args[0], "__") {
		return args
	}
	return append(append([]string{}, w.flags...), args...)
}

// answer is what an HTTP call came back with.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any // nil: no JSON object
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, strings.TrimSpace(a.text)) }

// str is a field of the body as text, "" if it is not there.
func (a answer) str(field string) string {
	switch v := a.body[field].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		return fmt.Sprint(v)
	}
}

// call makes one HTTP request. Headers come in pairs.
func (w *world) call(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	a, err := w.tryCall(method, path, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (w *world) tryCall(method, path, body string, headers ...string) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	node := w.node
	if n := len(w.others); n > 0 {
		node = append([]*process{w.node}, w.others...)[rand.IntN(n+1)]
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+node.http+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(b)}
	_ = json.Unmarshal(b, &a.body) // a list of lines has none
	return a, err
}

// lag is how many commands nobody has decided yet, by /v1/partitions.
func (w *world) lag(t *testing.T) (lag int, ready bool) {
	t.Helper()
	var body struct {
		Items []struct {
			Lag   int `json:"commands_lag"`
			Ready bool
		}
	}
	if err := json.Unmarshal([]byte(w.call(t, http.MethodGet, "/v1/partitions", "").text), &body); err != nil {
		t.Fatal(err)
	}
	ready = len(body.Items) == int(w.partitions)
	for _, i := range body.Items {
		lag += i.Lag
		ready = ready && i.Ready
	}
	return lag, ready
}

// follower reads the committed records of topics from their beginning.
type follower struct {
	t    *testing.T
	cl   *kgo.Client
	seen []*kgo.Record
}

func (w *world) follow(t *testing.T, topics ...string) *follower {
	t.Helper()
	for i := range topics {
		topics[i] = w.topic(topics[i])
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(200*time.Millisecond), kgo.FetchMaxBytes(8<<20),
		kgo.MetadataMinAge(200*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &follower{t: t, cl: cl}
}

// until reads on until what it has seen is enough.
func (f *follower) until(within time.Duration, what string, enough func([]*kgo.Record) bool) []*kgo.Record {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for !enough(f.seen) {
		fs := f.cl.PollFetches(ctx)
		if ctx.Err() != nil {
			f.t.Fatalf("%d records, but not %s within %v", len(f.seen), what, within)
		}
		f.seen = append(f.seen, fs.Records()...)
	}
	return f.seen
}

// header is the value of a record's header, and whether it is there once.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// hasKeys says that each of the keys is the subject of at least one record.
func hasKeys(recs []*kgo.Record, keys ...string) bool {
	have := map[string]bool{}
	for _, r := range recs {
		have[string(r.Key)] = true
	}
	for _, k := range keys {
		if !have[k] {
			return false
		}
	}
	return true
}

// events are the event log, by trigger, in their order.
func (w *world) events(t *testing.T) map[string][]topics.Event {
	t.Helper()
	out := map[string][]topics.Event{}
	for _, r := range dump(t, w.brokers, w.topic("events")) {
		e, err := topics.DecodeEvent(r.Value)
		if err != nil {
			t.Errorf("event %s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
			continue
		}
		out[string(r.Key)] = append(out[string(r.Key)], e)
	}
	return out
}

// types are the types of events, in their order.
func types(events []topics.Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// producer writes records where it is told to.
func (w *world) producer(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// command is a record on commands, on the partition its key belongs to.
func (w *world) command(key, value string, headers ...string) *kgo.Record {
	r := &kgo.Record{
		Topic: w.topic("commands"), Key: []byte(key), Value: []byte(value),
		Partition: topics.Partition([]byte(key), w.partitions),
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}
