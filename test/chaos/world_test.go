package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/test/services"
)

const (
	nodes      = 3 // brokers
	engines    = 3
	partitions = 12
	prefix     = "chaos."
	group      = "chaos-engine"
	apiKey     = "chaos-chaos-chaos-chaos-chaos-chaos" // an operator's: /v1/partitions wants one
)

// world is the cluster that is broken, and what watches it.
type world struct {
	t          *testing.T
	s          settings
	rng        *rand.Rand // of faults; the load has its own
	deck       *deck
	begin      time.Time
	dir        string
	kafka      *services.KafkaCluster
	brokers    []string
	db         *services.CassandraNode // nil: without
	engines    []*engine
	history    *engine // the role alone, beside the engines; nil without Cassandra
	config     string  // file, shared by all
	http       *http.Client
	admin      *kadm.Client
	load       *load
	tape       *tape
	standby    int
	left       []string // faults that cannot be done here, and why
	extra      *engine  // joins and leaves
	foreigners int
	end        time.Time // all was at rest, and the engines were stopped

	mu        sync.Mutex
	rounds    []round
	surprises []string // processes that ended by themselves
}

// round is what was done.
type round struct {
	fault            *fault
	phase            *phase
	from, healed, to time.Time
}

func newWorld(t *testing.T, s settings) *world {
	t.Helper()
	w := &world{
		t: t, s: s, rng: rand.New(rand.NewPCG(s.seed, 1)), begin: time.Now(), dir: t.TempDir(),
		http: &http.Client{Timeout: 3 * time.Second},
	}
	w.standby = w.rng.IntN(2)
	w.startServices()
	w.startEngines()
	w.tape = startTape(w)
	w.load = startLoad(w, s.seed)
	if err := w.recovered(2 * time.Minute); err != nil {
		t.Fatalf("the cluster does not come up: %v", err)
	}
	w.deal()
	t.Logf("%7s  all is up", w.at(time.Now()))
	return w
}

// at is a time as the summary tells it.
func (w *world) at(x time.Time) string { return fmt.Sprintf("%.0f s", x.Sub(w.begin).Seconds()) }

// between draws a duration.
func (w *world) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rng.Int64N(int64(most-least)+1))
}

// deal makes the deck: what can be done here, in an order of the seed.
func (w *world) deal() {
	w.deck = &deck{phases: append([]*phase{}, phases...)}
	for _, f := range faults {
		switch {
		case f.needs&root != 0 && !w.s.root:
			w.left = append(w.left, f.name+": needs root, for namespaces and small disks")
		case f.needs&cassandra != 0 && w.db == nil:
			w.left = append(w.left, f.name+": without Cassandra")
		case w.s.only.MatchString(f.name):
			w.deck.faults = append(w.deck.faults, f)
		}
	}
	if len(w.deck.faults) == 0 {
		w.t.Fatalf("no fault is named like %q", w.s.only)
	}
	w.rng.Shuffle(len(w.deck.faults), func(i, j int) {
		w.deck.faults[i], w.deck.faults[j] = w.deck.faults[j], w.deck.faults[i]
	})
	w.rng.Shuffle(len(w.deck.phases), func(i, j int) {
		w.deck.phases[i], w.deck.phases[j] = w.deck.phases[j], w.deck.phases[i]
	})
}

func (w *world) startServices() {
	w.t.Helper()
	options := []services.KafkaOption{services.Nodes(nodes)}
	if w.s.root {
		options = append(options, services.Namespaces(), services.Disk("1g"))
	}
	var both sync.WaitGroup
	if w.s.cassandra {
		both.Go(func() { w.db = services.OwnCassandra(w.t) })
	}
	both.Go(func() { w.kafka = services.Kafka(w.t, options...) })
	both.Wait()
	if w.t.Failed() { // it ended the goroutine, not the test
		w.t.FailNow()
	}
	w.brokers = strings.Split(w.kafka.Bootstrap, ",")
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	w.admin = kadm.NewClient(cl)
}

// startEngines starts the engines, and beside them the history.
func (w *world) startEngines() {
	w.t.Helper()
	w.writeConfig()
	for i := range engines {
		e := w.engine(fmt.Sprintf("engine-%d", i+1), "engine,api", i+1)
		if w.s.root {
			w.smallDisk(e.dir)
		}
		w.engines = append(w.engines, e)
		e.launch()
	}
	if w.db != nil {
		w.history = w.engine("history", "history", engines+1)
		w.history.launch()
	}
}

// engine makes one that is not started yet. n is its number from 1.
func (w *world) engine(name, roles string, n int) *engine {
	w.t.Helper()
	e := &engine{
		w: w, name: name, roles: roles, dir: filepath.Join(w.dir, name),
		log: filepath.Join(w.dir, name+".log"),
	}
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	var err error
	e.file, err = built.Waterclock()
	address := "127.0.0.1"
	switch {
	case roles == "history": // nobody cuts it off: it would be the same as Cassandra away
	case w.s.root:
		e.guest = w.kafka.Guest(guest(n))
		address = e.guest.Addr
	default:
		if e.file, err = built.Failpoints(); err == nil {
			e.links = w.links()
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	e.url = "http://" + address + ":" + freePort(w.t, address)
	if e.probe = "http://" + address + ":" + freePort(w.t, address); e.guest.Addr != "" {
		e.probe = "http://" + address + ":8081"
	}
	w.t.Cleanup(func() { w.killForGood(e) })
	return e
}

// guest is the number of engine n's namespace.
func guest(n int) int { return services.FirstGuest + n - 1 }

// killForGood ends a process for good, and keeps what it said if the test failed.
func (w *world) killForGood(e *engine) {
	said, _ := os.ReadFile(e.log)
	if w.t.Failed() && e.done != nil && !ended(e.done) { // what it was doing goes to the log
		e.signal(syscall.SIGCONT)
		e.signal(syscall.SIGQUIT)
		time.Sleep(500 * time.Millisecond)
	}
	e.kill()
	if !w.t.Failed() {
		return
	}
	if all, err := os.ReadFile(e.log); err == nil && w.s.keep != "" {
		_ = os.WriteFile(filepath.Join(w.s.keep, e.name+".log"), all, 0o600)
	}
	w.t.Logf("--- the end of what %s said\n%s", e.name, said[max(0, len(said)-1500):])
}

func (w *world) writeConfig() {
	w.t.Helper()
	keys := filepath.Join(w.dir, "keys")
	w.config = filepath.Join(w.dir, "waterclock.yaml")
	text := fmt.Sprintf(`brokers: %q
group: %s
topics: {prefix: %q, partitions: %d}
standby: %d
limits.min_period: 1s
channels.acked: {receipts: true, receipt_timeout: 5s, retry: "1s,2s"}
auth.keys_file: %s
http.tls_elsewhere: true
internal.secret: %s
`, w.kafka.Bootstrap, group, prefix, partitions, w.standby, keys, apiKey)
	if w.db != nil {
		text += fmt.Sprintf("cassandra: {hosts: %q, keyspace: %s}\n", strings.Join(w.db.Hosts, ","), keyspace)
	}
	for file, content := range map[string]string{keys: "default " + apiKey + " operator\n", w.config: text} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// diskSize is room for all an engine keeps, and for two memtables of each
// partition.
const diskSize = "768m"

// smallDisk gives a directory a file system that can be filled. It goes with
// this process, however it dies: a shell waits for that.
func (w *world) smallDisk(dir string) {
	w.t.Helper()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+diskSize+",mode=0700", "tmpfs",
		dir).CombinedOutput(); err != nil {
		w.t.Fatalf("mount: %v: %s", err, out)
	}
	undo := exec.Command("sh", "-c", `cat; umount -l "$0"`, dir)
	undo.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	life, err := undo.StdinPipe()
	if err == nil {
		err = undo.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { life.Close(); _ = undo.Wait() })
}

// underLoad is how long the load goes on while the cluster recovers. A machine
// that is too busy for both catches up when it has ended.
const underLoad = 30 * time.Second

// recovered waits until nothing is left of a fault: brokers in sync, engines
// healthy.
func (w *world) recovered(within time.Duration) error {
	var why error
	for begin, good := time.Now(), 0; time.Since(begin) < within; time.Sleep(200 * time.Millisecond) {
		if time.Since(begin) > underLoad {
			w.load.pace(min(1, int(w.load.rate.Load())))
		}
		if why = w.inSync(); why == nil {
			why = w.healthy()
		}
		if why != nil {
			good = 0
		} else if good++; good == 3 {
			return nil
		}
	}
	return why
}

// inSync says which partitions lack replicas.
func (w *world) inSync() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, err := w.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	lacking := 0
	all.EachPartition(func(p kadm.PartitionDetail) {
		if len(p.ISR) < min(nodes, len(p.Replicas)) || p.Leader < 0 {
			lacking++
		}
	})
	if lacking > 0 {
		return fmt.Errorf("%d partitions of topics lack replicas", lacking)
	}
	return nil
}

func (w *world) surprise(name, last string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.surprises = append(w.surprises, fmt.Sprintf("%s  %s ended by itself: %s", w.at(time.Now()), name, last))
}
