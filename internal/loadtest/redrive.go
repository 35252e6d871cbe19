package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/topics"
)

// RedriveOptions configure MeasureRedrive.
type RedriveOptions struct {
	Letters int // dead letters
	Payload int // bytes per dead letter
	Rate    int // redriven per second
}

// RedriveResult is the output of bench redrive. CPU and memory are those of dev: broker, engine,
// history and API in one process.
type RedriveResult struct {
	Machine
	Broker  string `json:"broker"`
	Letters int    `json:"letters"`
	Payload int    `json:"payload"`
	Rate    int    `json:"rate"`

	FilledS  float64 `json:"filled_s"`  // until all had failed and were listed
	DryRunS  float64 `json:"dry_run_s"` // time to count them
	RedriveS float64 `json:"redrive_s"`
	PerS     float64 `json:"redriven_per_s"`

	Progress    int     `json:"progress_lines"`
	LongestGapS float64 `json:"longest_gap_s"` // between two lines of progress
	Redriven    int64   `json:"redriven"`
	Duplicate   int64   `json:"duplicate"`
	Refused     int64   `json:"refused"`
	Pending     int64   `json:"pending"`
	Repeated    int     `json:"repeated"` // how often the connection broke and the request was sent anew
	Second      int64   `json:"redriven_by_a_second_run"`

	Lost    int `json:"lost"`    // were not sent a second time
	Doubled int `json:"doubled"` // were sent more than once after the redrive
	Wrong   int `json:"wrong"`   // had another ce_id, or the wrong attempt number

	CPUPerLetter float64 `json:"cpu_us_per_letter"`
	RSSBefore    int64   `json:"rss_before_bytes"`
	RSSPeak      int64   `json:"rss_peak_bytes"` // during the redrive
}

// The channel of the dead letters, and their code.
const (
	letterChannel = "bench"
	letterCode    = "bench_failed"
)

// MeasureRedrive creates dead letters in its own dev process. It redrives all of them in one
// request, and checks the progress and the due events.
func MeasureRedrive(ctx context.Context, s Setup, o RedriveOptions) (*RedriveResult, error) {
	allowPayload(s.Config, o.Payload)
	b := &redriveRun{Setup: s, o: o, result: &RedriveResult{
		Machine: s.machine(), Broker: "embedded", Letters: o.Letters, Payload: o.Payload, Rate: o.Rate,
	}}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	if err := b.fail(ctx); err != nil {
		return nil, fmt.Errorf("make dead letters: %w", err)
	}
	if err := b.listed(ctx); err != nil {
		return nil, err
	}
	if err := b.redrive(ctx); err != nil {
		return nil, fmt.Errorf("redrive: %w", err)
	}
	return b.result, nil
}

type redriveRun struct {
	Setup
	o      RedriveOptions
	dir    string
	server *child
	kafka  *kgo.Client // writes commands and receipts, and reads due events
	begun  time.Time
	ids    []string // ce_id of each letter
	result *RedriveResult
}

// open starts dev, and a client for its broker.
func (b *redriveRun) open(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "waterclock-bench-"); err != nil {
		return err
	}
	listen, err := freePort()
	if err != nil {
		return err
	}
	c := b.Config
	if b.server, err = startChild("dev", []string{
		"--kafka-listen", listen, "--data-dir", b.dir, "--limits-payload", c.Limits.Payload.String(),
		"--set", "channels." + letterChannel + ".receipts=true", "--set", "topics.prefix=" + c.Topics.Prefix,
		"--set", "topics.partitions=" + strconv.Itoa(c.Topics.Partitions),
	}); err != nil {
		return err
	}
	if err := b.server.awaitReady(ctx, 2*time.Minute); err != nil {
		return err
	}
	c.Brokers = []string{listen}
	opts, err := kafkaconn.Options(c, "waterclock-bench", nil)
	if err != nil {
		return err
	}
	opts = append(opts, reading(kgo.NewOffset().AtStart(), b.due())...)
	b.kafka, err = kgo.NewClient(append(opts,
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(200_000),
		kgo.ProducerLinger(5*time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMaxAge(time.Second), kgo.UnknownTopicRetries(-1),
	)...)
	return err
}

func (b *redriveRun) due() string { return b.Config.Topic("due." + letterChannel) }

func (b *redriveRun) close() {
	if b.kafka != nil {
		b.kafka.Close()
	}
	b.server.stop()
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

// fail registers the triggers and answers each due event with a failed receipt.
func (b *redriveRun) fail(ctx context.Context) error {
	b.begun, b.ids = time.Now(), make([]string, b.o.Letters)
	payloads := payloadsOf(b.o.Payload)
	registered := make(chan error, 1)
	go func() {
		for i := range b.o.Letters {
			key := []byte(b.key(i))
			b.kafka.Produce(ctx, &kgo.Record{
				Topic: b.Config.Topic("commands"), Key: key, Value: payloads.at(i),
				Partition: topics.Partition(key, int32(b.Config.Topics.Partitions)),
				Headers: []kgo.RecordHeader{
					{Key: "wc-delay", Value: []byte("0")}, {Key: "wc-channel", Value: []byte(letterChannel)},
				},
			}, nil) // a record that was not written is noticed below as missing
		}
		registered <- b.kafka.Flush(ctx)
	}()
	err := b.take(ctx, func(i int, r *kgo.Record) {
		id, attempt := headerOf(r, "ce_id"), headerOf(r, "ce_wcattempt")
		if b.ids[i] = id; attempt != "1" {
			b.result.Wrong++
		}
		b.kafka.Produce(ctx, &kgo.Record{
			Topic: b.Config.Topic("receipts"), Key: r.Key, Partition: r.Partition,
			Value: fmt.Appendf(nil, `{"due_id":%q,"channel":%q,"outcome":"failed","attempt":%s,"code":%q}`,
				id, letterChannel, attempt, letterCode),
		}, nil)
	})
	if err := errors.Join(err, <-registered, b.kafka.Flush(ctx)); err != nil {
		return err
	}
	if i := slices.Index(b.ids, ""); i >= 0 {
		return fmt.Errorf("%s was not fired", b.key(i))
	}
	return nil
}

func (b *redriveRun) key(i int) string { return "bench-" + strconv.Itoa(i) }

// take reads due events until there is one per letter, or none arrive any more.
func (b *redriveRun) take(ctx context.Context, do func(i int, r *kgo.Record)) error {
	for n := 0; n < b.o.Letters; {
		within, cancel := context.WithTimeout(ctx, patience)
		fs := b.kafka.PollFetches(within)
		cancel()
		if fs.NumRecords() == 0 {
			return ctx.Err()
		}
		for it := fs.RecordIter(); !it.Done(); n++ {
			r := it.Next()
			i, err := strconv.Atoi(strings.TrimPrefix(string(r.Key), "bench-"))
			if err != nil || i < 0 || i >= b.o.Letters {
				return fmt.Errorf("%q does not belong to this run", r.Key)
			}
			do(i, r)
		}
	}
	return nil
}

func headerOf(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// redriveLine is one line of the API's answer: progress, or why a letter is refused.
type redriveLine struct {
	Matched   int64  `json:"matched"`
	Redriven  int64  `json:"redriven"`
	Duplicate int64  `json:"duplicate"`
	Refused   int64  `json:"refused"`
	Pending   int64  `json:"pending"`
	Done      bool   `json:"done"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// listed counts dead letters with dry runs, until all are listed.
func (b *redriveRun) listed(ctx context.Context) error {
	before, still := int64(-1), time.Now()
	for {
		begun := time.Now()
		last, _, _, err := b.post(ctx, true)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && last.Matched == int64(b.o.Letters):
			b.result.DryRunS, b.result.FilledS = time.Since(begun).Seconds(), time.Since(b.begun).Seconds()
			return nil
		case err == nil && last.Matched != before:
			before, still = last.Matched, time.Now()
		case time.Since(still) > patience:
			return errors.Join(
				fmt.Errorf("only %d of %d dead letters are listed", before, b.o.Letters), err)
		}
		sleepUntil(ctx, time.Now().Add(time.Second))
	}
}

// redrive sends the request twice and checks which due events follow.
func (b *redriveRun) redrive(ctx context.Context) error {
	r := b.result
	sampling, stop := context.WithCancel(ctx)
	var samples usageSamples
	var sampled sync.WaitGroup
	sampled.Go(func() { samples = b.server.sample(sampling, 100*time.Millisecond) })
	var read sync.WaitGroup
	var readErr error
	seen := make([]uint8, b.o.Letters)
	read.Go(func() {
		readErr = b.take(ctx, func(i int, rec *kgo.Record) {
			if seen[i] < math.MaxUint8 {
				seen[i]++
			}
			if headerOf(rec, "ce_id") != b.ids[i] || headerOf(rec, "ce_wcattempt") != "2" {
				r.Wrong++
			}
		})
	})
	begun := time.Now()
	err := b.redriveAll(ctx)
	r.RedriveS = time.Since(begun).Seconds()
	stop()
	sampled.Wait()
	read.Wait()
	if err := errors.Join(err, readErr); err != nil {
		return err
	}
	second, _, _, err := b.post(ctx, false)
	if err != nil {
		return err
	}
	r.Second, r.PerS = second.Redriven, float64(r.Redriven)/r.RedriveS
	for _, n := range seen {
		switch {
		case n == 0:
			r.Lost++
		case n > 1:
			r.Doubled++
		}
	}
	r.RSSBefore, r.RSSPeak = samples.rss[0], slices.Max(samples.rss)
	r.CPUPerLetter = float64((samples.cpu[len(samples.cpu)-1] - samples.cpu[0]).Microseconds()) / float64(b.o.Letters)
	return nil
}

// redriveAll sends the request. If the connection breaks, it sends it anew, and the redrive
// continues.
func (b *redriveRun) redriveAll(ctx context.Context) error {
	r := b.result
	for {
		last, lines, gap, err := b.post(ctx, false)
		r.Redriven, r.Duplicate = r.Redriven+last.Redriven, r.Duplicate+last.Duplicate
		r.Refused, r.Pending = r.Refused+last.Refused, r.Pending+last.Pending
		r.Progress, r.LongestGapS = r.Progress+lines, max(r.LongestGapS, gap.Seconds())
		if err == nil || ctx.Err() != nil || r.Repeated == mostRepeats {
			return err
		}
		r.Repeated++
		sleepUntil(ctx, time.Now().Add(time.Second))
	}
}

// mostRepeats is how often the connection may break.
const mostRepeats = 10

// post redrives all letters with our code and reads the answer. It returns the last line of
// progress, the number of lines, and the longest time between two lines.
func (b *redriveRun) post(ctx context.Context, dry bool) (last redriveLine, lines int, gap time.Duration, err error) {
	body, err := json.Marshal(map[string]any{"code": letterCode, "rate": b.o.Rate, "dry_run": dry})
	if err != nil {
		return last, 0, 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.server.url+"/v1/dead-letters:redrive",
		bytes.NewReader(body))
	if err != nil {
		return last, 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	before := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return last, 0, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return last, 0, 0, fmt.Errorf("%s: %s", resp.Status, text)
	}
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var line redriveLine
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			return last, lines, gap, err
		}
		now := time.Now()
		gap, before = max(gap, now.Sub(before)), now
		if line.Code != "" {
			return last, lines, gap, fmt.Errorf("%s: %s", line.Code, line.Detail)
		}
		lines++
		last = line
	}
	if err := scan.Err(); err != nil {
		return last, lines, gap, err
	}
	if !last.Done {
		return last, lines, gap, errors.New("the answer ended before the redrive was complete")
	}
	return last, lines, gap, nil
}
