package loadtest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/internal/config"
)

// httpRun is one run of bench http.
type httpRun struct {
	o         HTTPOptions
	cfg       *config.Config
	log       *slog.Logger
	ownBroker bool

	id         string
	dir        string
	host       string
	child      *child
	bareHost   string
	bareServer *http.Server
	bareKafka  *kgo.Client
	result     *HTTPResult
	next       atomic.Int64
	count      struct{ answered, later, refused atomic.Int64 }
	body       []byte
}

// register returns the body of a register: due far in the future, with a payload that does not
// compress.
func (b *httpRun) register() []byte {
	if b.body == nil {
		b.body = []byte(`{"delay":"1000d","payload":"` + b.text() + `"}`)
	}
	return b.body
}

// text returns the inner part of a payload, which is a JSON string.
func (b *httpRun) text() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	text := make([]byte, max(0, b.o.Payload-2))
	for i := range text {
		text[i] = letters[rand.IntN(len(letters))]
	}
	return string(text)
}

func (b *httpRun) path() string {
	return "/v1/triggers/" + b.id + "-" + strconv.FormatInt(b.next.Add(1), 10)
}

// note counts an answer to a write.
func (b *httpRun) note(status int) {
	b.count.answered.Add(1)
	switch {
	case status == http.StatusAccepted:
		b.count.later.Add(1)
	case status >= 300:
		b.count.refused.Add(1)
	}
}

// flood sends on every connection as fast as answers come. It returns answers per second.
func (b *httpRun) flood(ctx context.Context, host string, connections int, send func(*lean) error) (float64, error) {
	g, ctx := errgroup.WithContext(ctx)
	var n atomic.Int64
	begun := time.Now()
	end := begun.Add(b.o.For)
	for range connections {
		g.Go(func() error {
			l, err := dialLean(host)
			if err != nil {
				return err
			}
			defer l.conn.Close()
			for time.Now().Before(end) && ctx.Err() == nil {
				if err := send(l); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err := g.Wait()
	return float64(n.Load()) / time.Since(begun).Seconds(), err
}

func (b *httpRun) put(l *lean) error {
	status, err := l.do(http.MethodPut, b.path(), b.register(), nil)
	b.note(status)
	return err
}

func (b *httpRun) warmUp(ctx context.Context) error {
	b.register()
	all := b.o
	b.o.For = min(b.o.For, 2*time.Second)
	_, err := b.flood(ctx, b.host, b.o.Connections, b.put)
	b.o = all
	return err
}

// each returns the server's CPU time per answer, in microseconds.
func (b *httpRun) each(before time.Duration, perSecond float64) float64 {
	after, _ := b.usage()
	return float64((after - before).Microseconds()) / max(perSecond*b.o.For.Seconds(), 1)
}

func (b *httpRun) single(ctx context.Context) (err error) {
	cpu, _ := b.usage()
	b.result.SinglePerS, err = b.flood(ctx, b.host, b.o.Connections, b.put)
	b.result.SingleCPU = b.each(cpu, b.result.SinglePerS)
	return err
}

func (b *httpRun) bare(ctx context.Context) (err error) {
	cpu := CPUTime()
	server, _ := b.usage()
	b.result.BarePerS, err = b.flood(ctx, b.bareHost, b.o.Connections, func(l *lean) error {
		status, err := l.do(http.MethodPut, b.path(), b.register(), nil)
		if err == nil && status != http.StatusCreated {
			err = fmt.Errorf("the bare handler answers %d", status)
		}
		return err
	})
	own := float64((CPUTime() - cpu).Microseconds()) / max(b.result.BarePerS*b.o.For.Seconds(), 1)
	b.result.BareCPU = b.each(server, b.result.BarePerS) + own
	return err
}

// lines returns a batch of n registers. With a user, 1,000 consecutive triggers share a user id.
func (b *httpRun) lines(n int, user string) []byte {
	var body bytes.Buffer
	register := b.register()[1:]
	for range n {
		i := b.next.Add(1)
		body.WriteString(`{"id":"` + b.id + "-" + strconv.FormatInt(i, 10) + `",`)
		if user != "" {
			body.WriteString(`"user_id":"` + user + "-" + strconv.FormatInt(i/1000, 10) + `",`)
		}
		body.Write(register)
		body.WriteByte('\n')
	}
	return body.Bytes()
}

// batchLines returns how many lines a batch has. The API accepts 10,000 lines and 64 MiB; large
// payloads reach the second limit first.
func (b *httpRun) batchLines() int {
	const lines, size, id = 10_000, 64 << 20, 128
	return max(1, min(lines, size/(len(b.register())+id)))
}

func (b *httpRun) sendBatch(l *lean, n int, user string) error {
	return b.sendLines(l, n, b.lines(n, user))
}

func (b *httpRun) sendLines(l *lean, n int, lines []byte) error {
	var answer bytes.Buffer
	status, err := l.do(http.MethodPost, "/v1/triggers:batch", lines, &answer)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("status %d: %.300s", status, &answer)
	}
	created := bytes.Count(answer.Bytes(), []byte(`"status":201`))
	b.count.answered.Add(int64(n))
	b.count.later.Add(int64(bytes.Count(answer.Bytes(), []byte(`"status":202`))))
	b.count.refused.Add(int64(bytes.Count(answer.Bytes(), []byte(`"code":`))))
	if created == 0 && n > 0 {
		return fmt.Errorf("nothing was created: %.300s", &answer)
	}
	return nil
}

func (b *httpRun) batch(ctx context.Context) error {
	cpu, _ := b.usage()
	perS, err := b.flood(ctx, b.host, b.o.Batches, func(l *lean) error { return b.sendBatch(l, b.batchLines(), "") })
	b.result.BatchPerS = perS * float64(b.batchLines())
	b.result.BatchCPU = b.each(cpu, b.result.BatchPerS)
	return err
}

// pace sends at a fixed rate, even if answers are slow. The time that a request waits for a free
// connection counts as latency.
func (b *httpRun) pace(ctx context.Context, length time.Duration, rate int, send func(*lean) error) (Lateness, error) {
	n := int(length.Seconds() * float64(rate))
	late := make([]int64, 0, n)
	var mu sync.Mutex
	due := make(chan time.Time, n)
	g, gctx := errgroup.WithContext(ctx)
	for range min(b.o.Connections, 256) {
		g.Go(func() error {
			l, err := dialLean(b.host)
			if err != nil {
				return err
			}
			defer l.conn.Close()
			for at := range due {
				if err := send(l); err != nil {
					return err
				}
				took := time.Since(at).Microseconds()
				mu.Lock()
				late = append(late, took)
				mu.Unlock()
			}
			return nil
		})
	}
	start := time.Now().Add(50 * time.Millisecond)
	for i := range n {
		at := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		sleepUntil(gctx, at)
		if gctx.Err() != nil {
			break
		}
		due <- at
	}
	close(due)
	if err := g.Wait(); err != nil {
		return Lateness{}, err
	}
	return lateOf(late), ctx.Err()
}

func (b *httpRun) paced(ctx context.Context) (err error) {
	b.result.Register, err = b.pace(ctx, b.o.For, b.o.Rate, b.put)
	return err
}

// read returns a GET request that must succeed.
func (b *httpRun) read(path func() string) func(*lean) error {
	return func(l *lean) error {
		status, err := l.do(http.MethodGet, path(), nil, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d for a read", status)
		}
		return err
	}
}

func (b *httpRun) gets(ctx context.Context) (err error) {
	l, err := dialLean(b.host)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	first := b.next.Load() + 1
	const some = 1000
	for range some {
		if err := b.put(l); err != nil {
			return err
		}
	}
	b.result.Get, err = b.pace(ctx, b.o.For, b.o.Rate, b.read(func() string {
		return "/v1/triggers/" + b.id + "-" + strconv.FormatInt(first+rand.Int64N(some), 10)
	}))
	return err
}

// lists registers triggers until enough are pending, 1,000 per user, and reads the first page of
// random users.
func (b *httpRun) lists(ctx context.Context) error {
	first := b.next.Load()/1000 + 1
	b.next.Store(first*1000 - 1)
	g, _ := errgroup.WithContext(ctx)
	var left atomic.Int64
	left.Store(int64(b.o.Pending / b.batchLines()))
	for range b.o.Batches {
		g.Go(func() error {
			l, err := dialLean(b.host)
			if err != nil {
				return err
			}
			defer l.conn.Close()
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := b.sendBatch(l, b.batchLines(), "u"); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	users := max(1, b.next.Load()/1000-first)
	late, err := b.pace(ctx, b.o.For, max(1, b.o.Rate/10), b.read(func() string {
		return fmt.Sprintf("/v1/triggers?user_id=u-%d&state=PENDING&limit=100", first+rand.Int64N(users))
	}))
	b.result.List = late
	return err
}

// steady keeps sending at the rate, and samples the server's memory ten times.
func (b *httpRun) steady(ctx context.Context) error {
	for range 10 {
		if b.o.Steady == 0 {
			return nil
		}
		if _, err := b.pace(ctx, b.o.Steady/10, b.o.Rate, b.put); err != nil {
			return err
		}
		_, rss := b.usage()
		b.result.RSS = append(b.result.RSS, rss)
	}
	return nil
}
