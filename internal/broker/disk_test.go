package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestFullDisk: what cannot be written is not acknowledged, and the broker
// stops with one error rather than go on beside its own log.
func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	for _, c := range []struct {
		name string
		file func(b *Broker) string
		do   func(t *testing.T, b *Broker) error
	}{
		{
			"segment",
			func(b *Broker) string { return segment0(b.opts.Dir, "a", 0) },
			func(t *testing.T, b *Broker) error {
				return brief(t, b, kgo.DisableIdempotentWrite()).ProduceSync(testContext(t),
					rec("a", 0, "k", "v")).FirstErr()
			},
		},
		{
			"group offsets",
			func(b *Broker) string { return b.groupsLog().path },
			func(t *testing.T, b *Broker) error {
				var os kadm.Offsets
				os.AddOffset("a", 0, 1, -1)
				return kadm.NewClient(brief(t, b)).CommitAllOffsets(testContext(t), "g", os)
			},
		},
		{
			"producer ids",
			func(b *Broker) string { return b.pidsLog().path },
			func(t *testing.T, b *Broker) error {
				_, _, err := brief(t, b, kgo.TransactionalID("x")).ProducerID(testContext(t))
				return err
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			fatal := make(chan error, 2)
			b := start(t, t.TempDir(), func(o *Options) { o.OnFatal = func(err error) { fatal <- err } })
			create(t, b, "a", 1)
			path := c.file(b)
			os.MkdirAll(filepath.Dir(path), 0o700)
			os.Remove(path)
			if err := os.Symlink("/dev/full", path); err != nil {
				t.Fatal(err)
			}
			if err := c.do(t, b); err == nil {
				t.Error("acknowledged on a full disk")
			}
			<-b.Fatal()
			if err := <-fatal; !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("stopped by %v, want %v", err, syscall.ENOSPC)
			}
			if err := brief(t, b).Ping(testContext(t)); err == nil {
				t.Error("still serves")
			}
			if err := b.Close(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("close: %v, want %v", err, syscall.ENOSPC)
			}
		})
	}
}

// brief is a client that gives up soon.
func brief(t testing.TB, b *Broker, opts ...kgo.Opt) *kgo.Client {
	return client(t, b, append(opts, kgo.RetryTimeout(300*time.Millisecond), kgo.RequestRetries(2),
		kgo.RecordRetries(2),
		kgo.DialTimeout(time.Second), kgo.RecordDeliveryTimeout(2*time.Second))...)
}

func TestOneBrokerPerDirectory(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	_, err := Start(testContext(t), Options{Dir: dir, Listen: "127.0.0.1:0", Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), "in use by another broker") {
		t.Errorf("second broker: %v", err)
	}
	stop(t, b)
	start(t, dir)
}

func TestVersionIsChecked(t *testing.T) {
	for _, c := range []struct {
		name string
		file string
		text string
		want string
	}{
		{"newer layout", versionFile, "waterclock-broker 3 kfake 1 v1\n", "newer waterclock"},
		{"newer kfake format", versionFile, "waterclock-broker 1 kfake 2 v1\n", "newer waterclock"},
		{"older layout", versionFile, "waterclock-broker 0 kfake 1 v1\n", "older waterclock"},
		{"not ours", versionFile, "hello\n", "not readable"},
		{"kfake's own word", dataDir + "/meta.json", `{"version":2,"cluster_id":"x"}`, "kfake format 2"},
		{"outcome log", outcomeFile, "WCOUTCM\x02", "not an outcome log of version 1"},
		{"journal", journalName(1), "WCJOURN\x02" + strings.Repeat("x", 20), "not a journal of version 1"},
		{"topics gone", dataDir + "/topics.json", "", "topics.json is missing"},
		{"topics damaged", dataDir + "/topics.json", "{", "topics.json is damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1)
			produce(t, client(t, b), rec("a", 0, "k", "v"))
			stop(t, b)
			path := filepath.Join(dir, c.file)
			if err := removeIf(path); err != nil {
				t.Fatal(err)
			}
			if c.text != "" {
				if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Start(testContext(t), Options{Dir: dir, Listen: "127.0.0.1:0", Logger: quiet})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestStrangeDirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "photo.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(testContext(t), Options{Dir: dir, Listen: "127.0.0.1:0", Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), "choose an empty directory") {
		t.Errorf("got %v", err)
	}
}

// TestTrim: what is trimmed is gone at once, stays gone, and the partition
// keeps its end even if nothing is left in it.
func TestTrim(t *testing.T) {
	for _, c := range []struct {
		name   string
		before int64
		want   []string
	}{
		{"nothing", 0, []string{"0", "1", "2"}},
		{"some", 2, []string{"2"}},
		{"all", 3, nil},
	} {
		for _, end := range []string{"closed", "killed"} {
			t.Run(c.name+", "+end, func(t *testing.T) {
				dir := t.TempDir()
				b := start(t, dir)
				create(t, b, "a", 1)
				cl := client(t, b)
				for i := range 3 {
					produce(t, cl, rec("a", 0, "k", fmt.Sprint(i)))
				}
				if err := b.Trim("a", 0, c.before); err != nil {
					t.Fatal(err)
				}
				wantValues(t, read(t, b, "a", 0), c.want...)
				if end == "killed" {
					dir = copyDir(t, dir)
				} else {
					stop(t, b)
				}
				b = start(t, dir)
				wantValues(t, read(t, b, "a", 0), c.want...)
				r := rec("a", 0, "k", "next")
				produce(t, client(t, b), r)
				if r.Offset != 3 {
					t.Errorf("next offset is %d, want 3", r.Offset)
				}
				b = start(t, copyDir(t, dir))
				wantValues(t, read(t, b, "a", 0), append(slices.Clone(c.want), "next")...)
			})
		}
	}
}

func TestTrimErrors(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	for _, c := range []struct {
		name      string
		partition int32
		before    int64
		want      string
	}{
		{"beyond the end", 0, 1, "it ends at 0"},
		{"no such partition", 1, 0, "no such partition"},
	} {
		if err := b.Trim("a", c.partition, c.before); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestDeleteRecordsSurvivesKill is TestTrim by the Kafka protocol.
func TestDeleteRecordsSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	produce(t, client(t, b), rec("a", 0, "k", "0"), rec("a", 0, "k", "1"))
	var os kadm.Offsets
	os.AddOffset("a", 0, -1, -1)
	res, err := kadm.NewClient(client(t, b)).DeleteRecords(testContext(t), os)
	if err != nil {
		t.Fatal(err)
	}
	if d, _ := res.Lookup("a", 0); d.Err != nil || d.LowWatermark != 2 {
		t.Errorf("low watermark %d, error %v; want 2", d.LowWatermark, d.Err)
	}
	b = start(t, copyDir(t, dir))
	wantEnds(t, b, 2, 2)
	r := rec("a", 0, "k", "next")
	produce(t, client(t, b), r)
	if r.Offset != 2 {
		t.Errorf("next offset is %d, want 2", r.Offset)
	}
	wantValues(t, read(t, b, "a", 0), "next")
}

// TestRetention by size, by age, and at start as well as running.
func TestRetention(t *testing.T) {
	big := strings.Repeat("x", 40<<10)
	for _, c := range []struct {
		name     string
		settings []string
		age      time.Duration
		want     int
	}{
		{"by size", []string{"retention.bytes", "150000"}, 0, 4},
		{"by default size", nil, 0, 8},
		{"not by size if it may not delete", []string{"cleanup.policy", "compact", "retention.bytes", "1"}, 0, 10},
		{"by age", []string{"retention.ms", "3600000"}, 2 * time.Hour, 0},
		{"young enough", []string{"retention.ms", "3600000", "retention.bytes", "-1"}, time.Minute, 10},
	} {
		for _, when := range []string{"running", "at start"} {
			t.Run(c.name+", "+when, func(t *testing.T) {
				dir := t.TempDir()
				small := func(o *Options) { o.SegmentBytes, o.TopicBytes, o.RetentionInterval = 64<<10, 250_000, -1 }
				b := start(t, dir, small)
				create(t, b, "a", 1, c.settings...)
				cl := client(t, b)
				for i := range 10 {
					r := rec("a", 0, fmt.Sprint(i), big)
					r.Timestamp = time.Now().Add(-c.age)
					produce(t, cl, r)
				}
				if when == "running" {
					if _, err := b.retainOnce(time.Now()); err != nil {
						t.Fatal(err)
					}
				} else {
					stop(t, b)
					b = start(t, dir, small)
				}
				got := read(t, b, "a", 0)
				if len(got) != c.want {
					t.Errorf("%d records left, want %d", len(got), c.want)
				}
				wantEnds(t, b, 10, 10)
			})
		}
	}
}

// TestFloorAboveTheEnd: a power cut took the last records, which nobody had been told of, after they were deleted.
// Their offsets are not given again: whoever got one below the floor would lose it at the next start.
func TestFloorAboveTheEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		records int
	}{{"records are left", 90}, {"none is left", 0}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1)
			var old []*kgo.Record
			for range c.records {
				old = append(old, rec("a", 0, "k", "old"))
			}
			produce(t, client(t, b), old...)
			up := map[floorKey]floor{{b.topics.named("a").idText(), 0}: {100, 100}}
			if err := b.floors.raise(up); err != nil {
				t.Fatal(err)
			}
			stop(t, b)
			b = start(t, dir)
			produce(t, client(t, b), rec("a", 0, "k", "new"))
			wantEnds(t, b, 101, 101)
			stop(t, b)
			b = start(t, dir)
			wantValues(t, read(t, b, "a", 0), "new")
		})
	}
}

// TestListingIsKept: a listing is read again for as long as the directory's time may hide a second change, which
// is a moment, but seconds where the grain is two seconds.
func TestListingIsKept(t *testing.T) {
	second := time.Now().Truncate(time.Second)
	for _, c := range []struct {
		name string
		at   time.Time
		kept bool
	}{
		{"fine", second.Add(-time.Second + time.Millisecond), true},
		{"coarse", second, false},
		{"coarse, long ago", second.Add(-time.Minute), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			var l listings
			for i := range int64(2) {
				if err := os.WriteFile(filepath.Join(dir, segmentName(i)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(dir, c.at, c.at); err != nil {
					t.Fatal(err)
				}
				bases, err := l.bases(dir)
				if read := len(bases) == int(i)+1; err != nil || i == 1 && read == c.kept {
					t.Errorf("bases %v, %v", bases, err)
				}
			}
		})
	}
}
