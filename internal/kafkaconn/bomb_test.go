//go:build unix

package kafkaconn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/internal/rawbatch"
)

// TestMain is also the consumer of TestBombs, a process of its own, so that its
// memory can be measured.
func TestMain(m *testing.M) {
	if brokers := os.Getenv("WATERCLOCK_TEST_CONSUME"); brokers != "" {
		if err := consumeBombs(brokers); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	bombs     = 24
	bombBytes = 40 << 20 // each within the bound; together 1 GB from some KB each
	mostPeak  = 600 << 20
)

// TestBombs: every client that is made from Options reads a topic full of small
// batches that are large decompressed, one after the other, in bounded memory.
// One that is larger than limits.batch_bytes is an error, and takes none.
func TestBombs(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "large", "huge"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	send := func(topic string, zeros int64) {
		raw := rawbatch.Spec{Codec: "zstd", Records: []rawbatch.Record{{
			Key: []byte("k"), Large: "value", Zeros: zeros,
		}}}.Batch()
		if _, err := rawbatch.Send(t.Context(), cl, topic, 0, raw); err != nil {
			t.Fatal(err)
		}
	}
	for range bombs {
		send("large", bombBytes)
	}
	send("huge", 900<<20)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "WATERCLOCK_TEST_CONSUME="+strings.Join(cluster.ListenAddrs(), ","))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("consumer: %v: %s", err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		t.Fatal("no usage")
	}
	peak := usage.Maxrss
	if runtime.GOOS == "linux" {
		peak <<= 10 // KiB there
	}
	t.Logf("peak RSS %d MiB", peak>>20)
	if peak > mostPeak {
		t.Errorf("the consumer took %d MiB", peak>>20)
	}
	if r, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), "large"); err != nil || r["large"][0].Offset != bombs {
		t.Errorf("the topic has %+v %v", r, err)
	}
}

// consumeBombs reads all of topic large, and then topic huge until it fails.
func consumeBombs(brokers string) error {
	c, err := config.Load(config.Options{Env: []string{"WATERCLOCK_BROKERS=" + brokers}})
	if err != nil {
		return err
	}
	opts, err := Options(c, "test", nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(append(opts, kgo.ConsumeTopics("large"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for n := 0; n < bombs; {
		fs := cl.PollFetches(ctx)
		for _, fe := range fs.Errors() {
			if !errors.Is(fe.Err, decompress.ErrLater) {
				return fmt.Errorf("after %d: %w", n, fe.Err)
			}
		}
		for it := fs.RecordIter(); !it.Done(); n++ {
			if got := len(it.Next().Value); got != bombBytes {
				return fmt.Errorf("record %d has %d bytes", n, got)
			}
		}
	}
	cl.AddConsumeTopics("huge")
	for {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return errors.New("a batch beyond the bound was no error")
		}
		for _, fe := range fs.Errors() {
			if errors.Is(fe.Err, kgo.ErrMaxDecompress) {
				return nil
			}
		}
		if fs.NumRecords() > 0 {
			return errors.New("a batch beyond the bound was read")
		}
	}
}
