package analytics

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const topic = "waterclock.events"

// world is a topic whose committed records are known from what was produced, not from what
// was read.
type world struct {
	t          *testing.T
	topic      string
	brokers    []string
	partitions int32
	producer   *kgo.Client // transactional
	us         []int64     // by partition: the newest event_us
	committed  map[int32]map[int64]string
}

func newWorld(t *testing.T, partitions int32) *world {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return worldOn(t, c.ListenAddrs(), topic, partitions)
}

// worldOn is a world on a topic that is there, and empty.
func worldOn(t *testing.T, brokers []string, topic string, partitions int32) *world {
	t.Helper()
	w := &world{
		t: t, topic: topic, brokers: brokers, partitions: partitions, committed: map[int32]map[int64]string{},
	}
	for p := range partitions {
		w.us = append(w.us, time.Date(2026, 11, 24, 23, 59, 59, 0, time.UTC).UnixMicro())
		w.committed[p] = map[int64]string{}
	}
	w.producer = w.client(kgo.TransactionalID(topic+"-engine"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return w
}

func (w *world) client(extra ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.brokers...)}, extra...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return cl
}

// event is the next event of a partition, so much later than the one before.
func (w *world) event(p int32, later time.Duration, more string) []byte {
	w.us[p] += later.Microseconds()
	us := w.us[p]
	at := time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000Z")
	return fmt.Appendf(nil, `{"event_id":"%d-%d","type":"occurrence.fired","version":1,"trigger":"k-%d-%d","tenant":"default",`+
		`"revision":1,"seq":1,"occurred_at":"%s","event_us":%d,"channel":"push","user_id":"ada","scheduled_at":"%s",`+
		`"occurrence":"%s","step":0,"attempt":1,"state":"FIRED","previous_state":"PENDING","lateness_ms":3,`+
		`"due_topic":"waterclock.due.push","due_partition":%d,"tags":{"team":"seats","zone":"b"}%s}`,
		p, us, p, us, at, us, at, at, p, more)
}

// write appends values to a partition in one transaction, which commits or aborts.
func (w *world) write(p int32, commit bool, values ...[]byte) {
	w.t.Helper()
	if err := w.producer.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
	var all []*kgo.Record
	for _, v := range values {
		all = append(all, &kgo.Record{Topic: w.topic, Partition: p, Value: v})
	}
	if err := w.producer.ProduceSync(w.t.Context(), all...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.producer.EndTransaction(w.t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range all {
		if commit {
			w.committed[p][r.Offset] = string(r.Value)
		}
	}
}

// fill writes transactions to all partitions: some abort, and some cross midnight.
func (w *world) fill(turns int) {
	for p := range w.partitions {
		for turn := range turns {
			var values [][]byte
			for range 1 + (turn*7+int(p))%9 {
				values = append(values, w.event(p, 100*time.Millisecond, ""))
			}
			if turn%5 == 3 {
				values = append(values, []byte("garbage"))
			}
			w.write(p, turn%4 != 2, values...)
		}
	}
}

// exporter has files of few offsets.
func (w *world) exporter(dir string, change ...func(*Options)) *Exporter {
	o := Options{Topic: w.topic, Dir: dir, Users: Users{Key: []byte("0123456789abcdef")}, Span: 32}
	for _, f := range change {
		f(&o)
	}
	if o.Client == nil {
		o.Client = w.client(ClientOptions()...)
	}
	return New(o)
}

func (w *world) export(dir string, change ...func(*Options)) Report {
	w.t.Helper()
	r, err := w.exporter(dir, change...).Export(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// read is what stands in the files, as the views take it.
func read(t *testing.T, dir string) (sealed, all map[int32][]Row, manifests []Manifest) {
	t.Helper()
	manifests, err := Manifests(dir)
	if err != nil {
		t.Fatal(err)
	}
	sealed, next := map[int32][]Row{}, map[int32]int64{}
	for _, m := range manifests {
		maps.Copy(next, m.Next)
		for _, f := range m.Files {
			rows, err := parquet.ReadFile[Row](filepath.Join(dir, f.Path))
			if err != nil {
				t.Fatal(err)
			}
			if int64(len(rows)) != f.Rows {
				t.Errorf("%s has %d rows, its manifest says %d", f.Path, len(rows), f.Rows)
			}
			text, err := os.ReadFile(filepath.Join(dir, f.Path))
			if err != nil || digestOf(text) != f.SHA256 || int64(len(text)) != f.Bytes {
				t.Errorf("%s is not what its manifest says: %v", f.Path, err)
			}
			for i := range rows {
				if o := rows[i].Offset; o < f.First || o > f.Last || rows[i].Partition != f.Partition {
					t.Errorf("%s has offset %d of partition %d", f.Path, o, rows[i].Partition)
				}
			}
			sealed[f.Partition] = append(sealed[f.Partition], rows...)
		}
	}
	all = map[int32][]Row{}
	for p, from := range next {
		all[p] = slices.Clone(sealed[p])
		rows, err := parquet.ReadFile[Row](filepath.Join(dir, tailDir, partitionName(p)+".parquet"))
		if err != nil && !gone(err) {
			t.Fatal(err)
		}
		for i := range rows {
			if rows[i].Offset >= from {
				all[p] = append(all[p], rows[i])
			}
		}
	}
	return sealed, all, manifests
}

// check compares the files with what was committed: each record once.
func (w *world) check(dir string) {
	w.t.Helper()
	_, all, _ := read(w.t, dir)
	for p := range w.partitions {
		seen := map[int64]bool{}
		for i := range all[p] {
			row := &all[p][i]
			value, ok := w.committed[p][row.Offset]
			if !ok || seen[row.Offset] {
				w.t.Errorf("partition %d, offset %d: committed %v, seen before %v", p, row.Offset, ok, seen[row.Offset])
			}
			if row.EventID != "" && !strings.Contains(value, row.EventID) || row.EventID == "" && value != "garbage" {
				w.t.Errorf("partition %d, offset %d has event %q, and the log %.60s", p, row.Offset, row.EventID, value)
			}
			seen[row.Offset] = true
		}
		if len(seen) != len(w.committed[p]) {
			w.t.Errorf("partition %d has %d rows of %d records", p, len(seen), len(w.committed[p]))
		}
	}
}

// files are all files of a directory with their digests, without those that are written anew.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		short, _ := filepath.Rel(dir, name)
		out[short] = digestOf(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func only(all map[string]string, prefix string) map[string]string {
	out := map[string]string{}
	for name, sum := range all {
		if strings.HasPrefix(name, prefix) {
			out[name] = sum
		}
	}
	return out
}

func sameFiles(t *testing.T, a, b map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			t.Errorf("%s differs, or is missing in the second", name)
		}
	}
	for name := range b {
		if a[name] == "" {
			t.Errorf("%s is only in the second", name)
		}
	}
}
