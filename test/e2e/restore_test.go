package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
)

// The topics of a cluster are lost, and made anew from a copy of state and control: the rehearsal of all steps of
// docs/operations/backup.md. What was pending fires, once, and what had fired does not. What was registered, cancelled
// and erased after the copy is so again once the commands since are produced again.
func TestRestoreOfTopics(t *testing.T) {
	const partitions = 4
	c := newCluster(t, partitions)
	hosts := services.Cassandra(t).Hosts
	tables := func(keyspace string) []string {
		return []string{
			"--roles", "engine,api,history",
			"--cassandra-hosts", strings.Join(hosts, ","), "--cassandra-keyspace", keyspace,
		}
	}
	oldHistory, newHistory := newName("before_"), newName("after_")
	p := c.node(t, "before", filepath.Join(t.TempDir(), "data"), tables(oldHistory)...)
	p.ready(60 * time.Second)
	l := newLoad(t, c.brokers, c.prefix)
	w := &world{brokers: c.brokers, prefix: c.prefix, node: p, flags: append(c.global(), "--url", "http://"+p.http)}
	soon, late, far := time.Now().Add(2*time.Second), time.Now().Add(90*time.Second), time.Now().Add(time.Hour)
	l.flood("fired", 100, func(int) time.Time { return soon })
	l.flood("pending", 400, func(i int) time.Time { return late.Add(time.Duration(i) * time.Millisecond) })
	l.flood("far", 3, func(int) time.Time { return far })
	w.follow(t, "due.default").until(30*time.Second, "what is due soon", func(r []*kgo.Record) bool {
		return len(r) >= 100
	})
	time.Sleep(time.Second)

	since := len(dump(t, c.brokers, c.prefix+"commands")) - 20 // the last of them are repeats later
	copied := map[string][]*kgo.Record{}
	for _, name := range []string{"state", "control"} {
		copied[name] = dump(t, c.brokers, c.prefix+name)
	}
	l.flood("later", 50, func(int) time.Time { return late.Add(10 * time.Second) })
	w.must(t, "cancel", "far-0")
	w.must(t, "erase", "far-1")
	awaitTables(t, hosts, oldHistory)
	awaitHistory(t, session(t, hosts, oldHistory), w)
	p.stop(20 * time.Second)
	commands := dump(t, c.brokers, c.prefix+"commands")
	slices.SortStableFunc(commands, func(a, b *kgo.Record) int { return a.Timestamp.Compare(b.Timestamp) })

	c.loseTopics(t)
	cl := w.producer(t)
	restore := func(name string, records []*kgo.Record) {
		for _, r := range records {
			restored := &kgo.Record{
				Topic: c.prefix + name, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers,
			}
			if err := cl.ProduceSync(t.Context(), restored).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, records := range copied {
		restore(name, records)
	}

	dir := filepath.Join(t.TempDir(), "new")
	first := c.acceptGaps(t, dir)
	restore("commands", commands[since:])
	w.node, w.flags = first, append(c.global(), "--url", "http://"+first.http)
	await(t, "the commands since the copy are decided", func() bool {
		return w.call(t, http.MethodGet, "/v1/triggers/later-49", "").status == http.StatusOK &&
			w.call(t, http.MethodGet, "/v1/triggers/far-0", "").str("state") == "CANCELLED" && w.isErased(t, "far-1")
	})
	second := c.node(t, "second", t.TempDir(), tables(newHistory)...)
	second.ready(60 * time.Second)
	awaitOwners(t, second, partitions, 2)
	first.stop(20 * time.Second)
	returned := c.node(t, "first, without the flag", dir, tables(newHistory)...)
	returned.ready(60 * time.Second)
	awaitOwners(t, returned, partitions, 2)
	w.node, w.flags = returned, append(c.global(), "--url", "http://"+returned.http)
	w.must(t, "erase", "far-2")
	await(t, "the erasure of far-2", func() bool { return w.isErased(t, "far-2") })
	if !w.isErased(t, "far-1") {
		t.Error("far-1 was erased, and is there")
	}

	w.follow(t, "due.default").until(3*time.Minute, "all that was pending", func(all []*kgo.Record) bool {
		keys := map[string]bool{}
		for _, r := range all {
			keys[string(r.Key)] = true
		}
		return len(keys) >= 450
	})
	time.Sleep(3 * time.Second) // what fires twice has done so by then
	fired := map[string]int{}
	for _, r := range dump(t, c.brokers, c.prefix+"due.default") {
		fired[string(r.Key)]++
	}
	for key, n := range fired {
		if !strings.HasPrefix(key, "pending") && !strings.HasPrefix(key, "later") {
			t.Errorf("%s had fired, was cancelled or erased before the topics were lost", key)
		} else if n > 1 {
			t.Errorf("%s fired %d times", key, n)
		}
	}
	awaitTables(t, hosts, newHistory)
	awaitHistory(t, session(t, hosts, newHistory), w)
	if a := w.call(t, http.MethodGet, "/v1/triggers/later-0/events", ""); !strings.Contains(a.text, "fired") {
		t.Errorf("the new history: %s", a)
	}
	var kept int
	err := session(t, hosts, oldHistory).Query("SELECT count(*) FROM events_by_trigger").Scan(&kept)
	if err != nil || kept < 500 {
		t.Errorf("the old history has %d events, %v", kept, err)
	}
}

// isErased reports whether a trigger is there no more, or with nothing but that it was erased.
func (w *world) isErased(t *testing.T, id string) bool {
	a := w.call(t, http.MethodGet, "/v1/triggers/"+id, "")
	return a.status == http.StatusNotFound || a.status == http.StatusOK && a.str("state") == "ERASED"
}

// acceptGaps starts a node on a new directory, and again with what its refusals
// name, until it is ready.
func (c *cluster) acceptGaps(t *testing.T, dir string) *process {
	t.Helper()
	named := regexp.MustCompile(`--accept-gap (\d+:\d+)`)
	var gaps []string
	for try := range 4 {
		args := []string{}
		if len(gaps) > 0 {
			args = append(args, "--accept-gap", strings.Join(gaps, ","))
		}
		p := c.node(t, fmt.Sprint("after-", try), dir, args...)
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if resp, err := http.Get("http://" + p.http + "/readyz"); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					t.Logf("ready with --accept-gap %s", strings.Join(gaps, ","))
					return p
				}
			}
			if strings.Count(p.logged(), "is refused") >= 4 {
				break
			}
		}
		before := len(gaps)
		for _, m := range named.FindAllStringSubmatch(p.logged(), -1) {
			if !slices.Contains(gaps, m[1]) {
				gaps = append(gaps, m[1])
			}
		}
		if len(gaps) == before {
			t.Fatal("the node is not ready, and its log names no further gap")
		}
		p.stop(20 * time.Second)
	}
	t.Fatal("each start names further gaps")
	return nil
}

// loseTopics deletes every topic of the cluster and makes empty ones.
func (c *cluster) loseTopics(t *testing.T) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	all, err := adm.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, name := range all.Names() {
		if strings.HasPrefix(name, c.prefix) {
			ours = append(ours, name)
		}
	}
	if _, err := adm.DeleteTopics(t.Context(), ours...); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	run(t, append([]string{"topics", "apply"}, c.global()...)...)
}
