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
)

// The topics of a cluster are lost, and made anew from a copy of state and control:
// the rehearsal of docs/operations/backup.md. What was pending fires, once,
// and what had fired does not.
func TestRestoreOfTopics(t *testing.T) {
	const partitions = 4
	c := newCluster(t, partitions)
	dir := filepath.Join(t.TempDir(), "data")
	p := c.node(t, "before", dir)
	p.ready(60 * time.Second)
	l := newLoad(t, c.brokers, c.prefix)
	soon, late := time.Now().Add(2*time.Second), time.Now().Add(75*time.Second)
	l.flood("fired", 100, func(int) time.Time { return soon })
	l.flood("pending", 400, func(i int) time.Time { return late.Add(time.Duration(i) * time.Millisecond) })
	w := &world{brokers: c.brokers, prefix: c.prefix}
	w.follow(t, "due.default").until(30*time.Second, "what is due soon", func(r []*kgo.Record) bool {
		return len(r) >= 100
	})
	time.Sleep(time.Second)
	p.stop(20 * time.Second)

	copied := map[string][]*kgo.Record{}
	for _, name := range []string{"state", "control"} {
		copied[name] = dump(t, c.brokers, c.prefix+name)
	}
	c.loseTopics(t)
	cl := w.producer(t)
	for name, records := range copied {
		for _, r := range records {
			restored := &kgo.Record{
				Topic: c.prefix + name, Partition: r.Partition, Key: r.Key, Value: r.Value, Headers: r.Headers,
			}
			if err := cl.ProduceSync(t.Context(), restored).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}

	c.acceptGaps(t, filepath.Join(t.TempDir(), "new"))
	fired := map[string]int{}
	w.follow(t, "due.default").until(3*time.Minute, "all that was pending", func(all []*kgo.Record) bool {
		clear(fired)
		for _, r := range all {
			fired[string(r.Key)]++
		}
		return len(fired) >= 400
	})
	time.Sleep(3 * time.Second) // what fires twice has done so by then
	for _, r := range dump(t, c.brokers, c.prefix+"due.default") {
		if key := string(r.Key); strings.HasPrefix(key, "fired") {
			t.Errorf("%s had fired before the topics were lost", key)
		} else if fired[key]--; fired[key] < 0 {
			t.Errorf("%s fired twice", key)
		}
	}
}

// acceptGaps starts a node on a new directory, and again with what its refusals
// name, until it is ready.
func (c *cluster) acceptGaps(t *testing.T, dir string) {
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
					return
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
