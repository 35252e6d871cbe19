// Command nats measures nats-server's message schedules the way `waterclock
// bench` measures Waterclock: the same flags, the same incompressible payloads,
// the same fields in the result. The server runs in this process with file
// storage, as the embedded broker does in waterclock bench.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type options struct {
	triggers int
	payload  int
	window   time.Duration
	rate     int
	streams  int
	sync     bool
}

type result struct {
	Triggers      int     `json:"triggers"`
	Payload       int     `json:"payload"`
	Window        string  `json:"window"`
	Rate          int     `json:"rate,omitempty"`
	Broker        string  `json:"broker"`
	Partitions    int     `json:"partitions"`
	Sync          bool    `json:"sync"`
	RegistersPerS float64 `json:"registers_per_s"`
	FiresPerS     float64 `json:"fires_per_s"`
	Lateness      struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
		Max float64 `json:"max"`
	} `json:"lateness_ms"`
	LastOutS   float64 `json:"last_out_s"`
	CPUSeconds float64 `json:"cpu_seconds"`
	RSSBytes   int64   `json:"rss_bytes"`
	Duplicates int     `json:"duplicates"`
	Lost       int     `json:"lost"`
	Early      int     `json:"early"`
	Machine    struct {
		CPUs int    `json:"cpus"`
		Go   string `json:"go"`
	} `json:"machine"`
}

func main() {
	var o options
	flag.IntVar(&o.triggers, "triggers", 200_000, "how many")
	flag.IntVar(&o.payload, "payload", 200, "payload bytes of each, incompressible; at least 16")
	flag.DurationVar(&o.window, "window", 10*time.Second, "time over which they fall due; 0s is one instant")
	flag.IntVar(&o.rate, "rate", 0, "registers per second, each due one second later; 0 registers all first")
	flag.IntVar(&o.streams, "streams", 4, "streams; each has a scheduler of its own")
	flag.BoolVar(&o.sync, "sync", true, "sync_interval: always")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "nats:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "nats-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: dir,
		JetStreamMaxStore: 60 << 30, JetStreamMaxMemory: 1 << 30, NoSigs: true, NoLog: true, SyncAlways: o.sync,
	})
	if err != nil {
		return err
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(time.Minute) {
		return fmt.Errorf("the server is not ready after a minute")
	}
	b := &bench{o: o, url: s.ClientURL(), got: make(chan struct{})}
	if err := b.connect(ctx); err != nil {
		return err
	}
	before := cpuTime()
	if err := b.register(ctx); err != nil {
		return err
	}
	select {
	case <-b.got:
	case <-time.After(time.Until(b.lastDue) + 3*time.Minute):
	}
	return b.print(before)
}

// bench is one run. seen and late belong to the consumer until got is closed.
type bench struct {
	o         options
	url       string
	js        jetstream.JetStream
	firstDue  time.Time
	lastDue   time.Time
	registers float64
	got       chan struct{}

	seen []bool
	n    int
	dup  int
	late []float64
	last time.Time
}

func (b *bench) connect(ctx context.Context) error {
	nc, err := nats.Connect(b.url)
	if err != nil {
		return err
	}
	if b.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2000),
		jetstream.WithPublishAsyncTimeout(time.Minute)); err != nil {
		return err
	}
	b.seen = make([]bool, b.o.triggers)
	arrived := make(chan jetstream.Msg, 10_000)
	go b.receive(arrived)
	for i := range b.o.streams {
		name := "S" + strconv.Itoa(i)
		_, err := b.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name, Subjects: []string{name + ".>", "due." + name},
			Storage: jetstream.FileStorage, AllowMsgSchedules: true, AllowMsgTTL: true,
		})
		if err != nil {
			return err
		}
		c, err := b.js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"due." +
			name}})
		if err != nil {
			return err
		}
		if _, err := c.Consume(func(m jetstream.Msg) { arrived <- m }, jetstream.PullMaxMessages(5000)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) receive(arrived <-chan jetstream.Msg) {
	for m := range arrived {
		now, data := time.Now(), m.Data()
		i := binary.LittleEndian.Uint64(data[8:])
		if b.seen[i] {
			b.dup++
			continue
		}
		b.seen[i] = true
		b.n++
		b.last = now
		b.late = append(b.late, float64(now.UnixNano()-int64(binary.LittleEndian.Uint64(data)))/1e6)
		if b.n == b.o.triggers {
			close(b.got)
			return
		}
	}
}

func (b *bench) register(ctx context.Context) error {
	start := time.Now()
	b.firstDue = start.Add(2*time.Second + time.Duration(b.o.triggers)*time.Second/40_000)
	b.lastDue = b.firstDue.Add(b.o.window)
	if b.o.rate > 0 {
		b.firstDue = start.Add(time.Second)
		b.lastDue = b.firstDue.Add(time.Duration(b.o.triggers) * time.Second / time.Duration(b.o.rate))
	}
	rng := rand.NewChaCha8([32]byte{1})
	var acks []jetstream.PubAckFuture
	for i := range b.o.triggers {
		if b.o.rate > 0 && i%64 == 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(b.o.rate))))
		}
		due := b.due(i)
		data := make([]byte, b.o.payload)
		rng.Read(data)
		binary.LittleEndian.PutUint64(data, uint64(due.UnixNano()))
		binary.LittleEndian.PutUint64(data[8:], uint64(i))
		name := "S" + strconv.Itoa(i%b.o.streams)
		m := nats.NewMsg(name + "." + strconv.Itoa(i))
		m.Data = data
		m.Header.Set("Nats-Schedule", "@at "+due.UTC().Format(time.RFC3339Nano))
		m.Header.Set("Nats-Schedule-Target", "due."+name)
		ack, err := b.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute))
		if err != nil {
			return err
		}
		acks = append(acks, ack)
	}
	<-b.js.PublishAsyncComplete()
	b.registers = float64(b.o.triggers) / time.Since(start).Seconds()
	for _, a := range acks {
		select {
		case err := <-a.Err():
			return err
		default:
		}
	}
	return nil
}

// due spreads the triggers as waterclock bench does.
func (b *bench) due(i int) time.Time {
	if b.o.rate > 0 {
		return b.firstDue.Add(time.Duration(i) * time.Second / time.Duration(b.o.rate))
	}
	spread := uint64(i) * 11400714819323198485 % uint64(max(b.o.window.Milliseconds(), 1))
	return b.firstDue.Add(time.Duration(spread) * time.Millisecond)
}

func (b *bench) print(before time.Duration) error {
	r := result{
		Triggers: b.o.triggers, Payload: b.o.payload, Window: b.o.window.String(), Rate: b.o.rate,
		Broker:     "nats-server " + server.VERSION,
		Partitions: b.o.streams, Sync: b.o.sync, RegistersPerS: b.registers, Duplicates: b.dup,
		Lost: b.o.triggers - b.n,
	}
	slices.Sort(b.late)
	at := func(q float64) float64 { return b.late[int(q*float64(len(b.late)-1))] }
	if b.n > 0 {
		r.Lateness.P50, r.Lateness.P99, r.Lateness.Max = at(.5), at(.99), at(1)
		r.FiresPerS = float64(b.n) / b.last.Sub(b.firstDue).Seconds()
		r.LastOutS = b.last.Sub(b.lastDue).Seconds()
		r.Early, _ = slices.BinarySearch(b.late, 0)
	}
	r.CPUSeconds = (cpuTime() - before).Seconds()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return err
	}
	r.RSSBytes = u.Maxrss << 10
	r.Machine.CPUs, r.Machine.Go = runtime.NumCPU(), runtime.Version()
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
