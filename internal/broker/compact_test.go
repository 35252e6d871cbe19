package broker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func eager(o *Options) { o.CompactBytes = 1 }

// TestCompaction compares a compacted log with what it said before: the last
// committed value of each key, at the offset it had.
func TestCompaction(t *testing.T) {
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprintf("seed %d, codec %d", seed, i), func(t *testing.T) { compactRandom(t, seed, codec) })
	}
}

func compactRandom(t *testing.T, seed uint64, codec kgo.CompressionCodec) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1, "cleanup.policy", "compact", "message.timestamp.type", "LogAppendTime")
	txn := client(t, b, kgo.TransactionalID("x"), kgo.ProducerBatchCompression(codec))
	plain := client(t, b, kgo.ProducerBatchCompression(codec))
	for n := range 120 {
		var recs []*kgo.Record
		for range 1 + rnd.IntN(5) {
			r := rec("a", 0, fmt.Sprint(rnd.IntN(10)), fmt.Sprintf("%d-%s", n, strings.Repeat("x", rnd.IntN(200))))
			if rnd.IntN(8) == 0 {
				r.Value = nil
			}
			recs = append(recs, r)
		}
		switch rnd.IntN(3) {
		case 0:
			produce(t, plain, recs...)
		case 1:
			transact(t, txn, true, recs...)
		case 2:
			transact(t, txn, false, recs...)
		}
	}
	want := newest(read(t, b, "a", 0, committed()))
	end := b.end("a", 0)
	before := diskUse(t, partitionDir(b.data, "a", 0))
	stop(t, b)

	b = start(t, dir, eager)
	after := read(t, b, "a", 0, committed())
	if got := newest(after); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("after compaction\n%v\nbefore\n%v", got, want)
	}
	if len(after) != len(want) {
		t.Errorf("%d records left of %d keys", len(after), len(want))
	}
	if got := b.end("a", 0); got != end {
		t.Errorf("log ends at %d, want %d", got, end)
	}
	if got := diskUse(t, partitionDir(b.data, "a", 0)); got >= before/2 {
		t.Errorf("%d bytes, before %d", got, before)
	}
	transact(t, client(t, b, kgo.TransactionalID("x")), true, rec("a", 0, "0", "next"))
	b = start(t, copyDir(t, dir))
	if got := read(t, b, "a", 0, committed()); string(got[len(got)-1].Value) != "next" ||
		got[len(got)-1].Offset != end {
		t.Errorf("last is %q at %d, want next at %d", got[len(got)-1].Value, got[len(got)-1].Offset, end)
	}
}

// TestCompactionKeepsTheCodec: what is left of a batch is compressed as the batch was.
func TestCompactionKeepsTheCodec(t *testing.T) {
	for _, c := range []struct {
		name  string
		codec kgo.CompressionCodec
		most  int64 // bytes on disk
	}{
		{"none", kgo.NoCompression(), 12_000},
		{"gzip", kgo.GzipCompression(), 1500},
		{"snappy", kgo.SnappyCompression(), 1500},
		{"lz4", kgo.Lz4Compression(), 1500},
		{"zstd", kgo.ZstdCompression(), 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1, "cleanup.policy", "compact")
			cl := client(t, b, kgo.ProducerBatchCompression(c.codec), kgo.ProducerLinger(50*time.Millisecond))
			var first, second []*kgo.Record
			for n := range 100 {
				r := rec("a", 0, fmt.Sprint(n), strings.Repeat("value ", 20))
				if first = append(first, r); n%2 == 0 {
					second = append(second, rec("a", 0, fmt.Sprint(n), "new"))
				}
			}
			produce(t, cl, first...)
			produce(t, cl, second...)
			want := newest(read(t, b, "a", 0))
			stop(t, b)
			b = start(t, dir, eager)
			if after := read(t, b, "a", 0); len(after) != 100 || fmt.Sprint(newest(after)) != fmt.Sprint(want) {
				t.Errorf("%d records\n%v\nbefore\n%v", len(after), newest(after), want)
			}
			got := diskUse(t, partitionDir(b.data, "a", 0))
			t.Logf("%d bytes", got)
			if got > c.most {
				t.Errorf("%d bytes, want at most %d", got, c.most)
			}
		})
	}
}

func diskUse(t testing.TB, dir string) int64 {
	t.Helper()
	segments, err := listSegments(dir)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, s := range segments {
		total += s.size
	}
	return total
}

func newest(recs []*kgo.Record) map[string]string {
	m := map[string]string{}
	for _, r := range recs {
		m[string(r.Key)] = fmt.Sprintf("%s@%d %d", r.Value, r.Offset, r.Timestamp.UnixMilli())
	}
	return m
}

// TestTombstones: an old tombstone goes with what it deleted, a young one
// stays for those who read on.
func TestTombstones(t *testing.T) {
	for _, c := range []struct {
		name     string
		age      time.Duration
		settings []string
		want     []string
	}{
		{"young", 23 * time.Hour, nil, []string{"k=", "last=v"}},
		{"old", 25 * time.Hour, nil, []string{"last=v"}},
		{"own retention", time.Hour, []string{"delete.retention.ms", "60000"}, []string{"last=v"}},
		{
			"within the lag", 25 * time.Hour,
			[]string{"min.compaction.lag.ms", "360000000"},
			[]string{"k=v", "k=", "last=v"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1, append(c.settings, "cleanup.policy", "compact")...)
			cl := client(t, b)
			at := time.Now().Add(-c.age)
			for _, r := range []*kgo.Record{
				rec("a", 0, "k", "v"),
				{Topic: "a", Key: []byte("k")},
				rec("a", 0, "last", "v"),
			} {
				r.Timestamp = at
				produce(t, cl, r)
			}
			stop(t, b)
			var got []string
			for _, r := range read(t, start(t, dir, eager), "a", 0) {
				got = append(got, string(r.Key)+"="+string(r.Value))
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// TestCompactionIsCrashSafe stops the exchange of directories before each of
// its steps.
func TestCompactionIsCrashSafe(t *testing.T) {
	for _, c := range []struct {
		name string
		left []string // of dir, new, old, ahead
		want string
	}{
		{"copy made ahead", []string{"dir", "ahead"}, "dir"},
		{"new one half written", []string{"dir", "new"}, "dir"},
		{"old one moved away", []string{"new", "old"}, "new"},
		{"new one moved in", []string{"dir", "old"}, "dir"},
		{"nothing under way", []string{"dir"}, "dir"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			data := filepath.Join(root, dataDir)
			paths := map[string]string{
				"dir": filepath.Join(data, "partitions", "a-0"),
				"new": filepath.Join(root, cleanDir, "a-0.new"),
				"old": filepath.Join(root, cleanDir, "a-0.old"),

				"ahead": filepath.Join(root, cleanDir, "a-0.ahead"),
			}
			for _, dir := range []string{filepath.Join(data, "partitions"), filepath.Join(root, cleanDir)} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, what := range c.left {
				if err := os.Mkdir(paths[what], 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(paths[what], "who"), []byte(what), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := finishCleaning(root, data, false); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(filepath.Join(paths["dir"], "who")); string(got) != c.want {
				t.Errorf("partition is the %q one, want %q", got, c.want)
			}
			if left, _ := os.ReadDir(filepath.Join(root, cleanDir)); len(left) > 0 {
				t.Errorf("%d directories left over", len(left))
			}
		})
	}
}

// TestCompactionKeepsRetries: a producer's last batches are known even if
// compaction dropped them.
func TestCompactionKeepsRetries(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1, "cleanup.policy", "compact")
	raw := sequenced(7000, 0, 0, "first")
	first := produceRaw(t, b, "a", 0, raw)
	produce(t, client(t, b), rec("a", 0, "k", "second"))
	b = start(t, copyDir(t, dir), eager)
	if second := produceRaw(t, b, "a", 0, raw); second.BaseOffset != first.BaseOffset || second.ErrorCode != 0 {
		t.Errorf("retry at %d (error %d), want %d", second.BaseOffset, second.ErrorCode, first.BaseOffset)
	}
	wantValues(t, read(t, b, "a", 0), "second")
}

// TestRestartCompacts: a compacted topic that grows is compacted while the
// broker runs, and nobody loses anything by it.
func TestRestartCompacts(t *testing.T) {
	b := start(t, t.TempDir(), func(o *Options) {
		o.CompactBytes, o.RestartBytes, o.RetentionInterval, o.SegmentBytes = 1, 200_000, 20*time.Millisecond, 64<<10
	})
	create(t, b, "a", 1, "cleanup.policy", "compact")
	plain := client(t, b)
	value := strings.Repeat("x", 1000)
	for n := range 1000 {
		produce(t, plain, rec("a", 0, fmt.Sprint(n%10), fmt.Sprint(n, value)))
	}
	got := read(t, b, "a", 0)
	for _, r := range got[len(got)-10:] {
		if n := r.Offset; string(r.Value) != fmt.Sprint(n, value) || n < 990 {
			t.Errorf("offset %d has %.10s", n, r.Value)
		}
	}
	if len(got) > 600 {
		t.Errorf("%d records left: nothing was compacted", len(got))
	}
	wantEnds(t, b, 1000, 1000)
	transact(t, client(t, b, kgo.TransactionalID("x")), true, rec("a", 0, "k", "v"))
}

// TestRestartOnlyToCompact: what a start would not compact is no reason for a restart, or one would follow the other.
func TestRestartOnlyToCompact(t *testing.T) {
	b := start(t, t.TempDir(), func(o *Options) { o.CompactBytes, o.RestartBytes = 100_000, 150_000 })
	create(t, b, "a", 4, "cleanup.policy", "compact")
	cl := client(t, b)
	fill := func(p int32) {
		produce(t, cl, &kgo.Record{Topic: "a", Partition: p, Key: []byte("k"), Value: make([]byte, 60_000)})
	}
	grown := func() int64 {
		g, err := b.retainOnce(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return g.bytes
	}
	for p := range int32(4) {
		fill(p)
	}
	if n := grown(); n != 0 {
		t.Errorf("%d bytes are to be compacted, and no partition has grown enough for that", n)
	}
	fill(0)
	fill(1)
	if n := grown(); n < 240_000 {
		t.Errorf("%d bytes are to be compacted, and two partitions of 120,000 are", n)
	}
	if err := b.restart(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := grown(); n != 0 {
		t.Errorf("after a restart %d bytes are to be compacted", n)
	}
}
