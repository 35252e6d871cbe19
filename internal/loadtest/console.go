package loadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/node"
)

// ConsoleOptions set what is pending, what fires, and who looks.
type ConsoleOptions struct {
	For      time.Duration // duration of each measurement
	Pending  int           // triggers; one in ten has a recurrence
	Fires    int           // per second, all the time
	Rate     int           // reads per second
	Consoles int           // streams that are open
	Payload  int           // bytes per trigger
}

// ConsoleResult is the output of bench console. Times are in milliseconds.
type ConsoleResult struct {
	Broker   string `json:"broker"`
	Pending  int    `json:"pending"`
	Fires    int    `json:"fires_per_s"`
	Rate     int    `json:"reads_per_s"`
	Consoles int    `json:"consoles"`

	// Reads of the console's pages, from the time when each should have been sent.
	List       Lateness `json:"list_ms"`         // the first 50 by next fire
	UserList   Lateness `json:"user_list_ms"`    // those of a user
	Search     Lateness `json:"search_ms"`       // of a key
	SearchUser Lateness `json:"search_user_ms"`  // of a user
	Explain    Lateness `json:"explain_ms"`      // of a trigger
	Forecast   Lateness `json:"forecast_90d_ms"` // 90 days by the hour

	Fact    Lateness `json:"fact_ms"` // from an event until a stream has it
	Alone   Watched  `json:"alone"`   // without a console
	Watched Watched  `json:"watched"` // with all consoles
	Machine Machine  `json:"machine"`
}

// Watched is what the server does while it is watched, or is not.
type Watched struct {
	Late  Lateness `json:"lateness_ms"` // of due events, until a consumer has them
	Cores float64  `json:"cores"`       // CPU seconds of the server per second
	Fired int      `json:"fired"`
}

// consoleRun is one run: dev in another process, triggers that fire, and reads beside them.
type consoleRun struct {
	httpRun
	o      ConsoleOptions
	result *ConsoleResult
	due    *kgo.Client
	users  int
}

// perUser is how many pending triggers a user has.
const perUser = 100

// MeasureConsole measures what a console reads, and what many open consoles cost.
func MeasureConsole(ctx context.Context, s Setup, o ConsoleOptions) (*ConsoleResult, error) {
	c := newConsoleRun(o)
	c.cfg, c.log, c.ownBroker = s.Config, s.Logger, true
	c.result.Machine = s.machine()
	return c.measure(ctx)
}

func newConsoleRun(o ConsoleOptions) *consoleRun {
	return &consoleRun{
		o: o, users: max(1, o.Pending/perUser),
		httpRun: httpRun{
			o: HTTPOptions{
				For: o.For, Rate: o.Rate, Connections: 16, Batches: 2, Payload: o.Payload, OwnServer: true,
			},
			result: &HTTPResult{},
		},
		result: &ConsoleResult{
			Broker: "embedded", Pending: o.Pending, Fires: o.Fires, Rate: o.Rate, Consoles: o.Consoles,
		},
	}
}

// ConsoleLoad is what MeasureConsole has its server do, for a server that is there already.
type ConsoleLoad struct{ run *consoleRun }

// NewConsoleLoad is the load of the server at host. Of the options it needs Pending, Fires and Payload.
func NewConsoleLoad(host string, o ConsoleOptions) *ConsoleLoad {
	run := newConsoleRun(o)
	run.host, run.id = host, node.NewID()
	return &ConsoleLoad{run}
}

// Fill registers what is pending.
func (l *ConsoleLoad) Fill(ctx context.Context) error { return l.run.fill(ctx) }

// Fire registers triggers that fire shortly after, until ctx ends.
func (l *ConsoleLoad) Fire(ctx context.Context) error { return l.run.fire(ctx) }

func (c *consoleRun) measure(ctx context.Context) (*ConsoleResult, error) {
	if err := c.serve(ctx); err != nil {
		return nil, err
	}
	defer c.stop()
	if err := c.fill(ctx); err != nil {
		return nil, fmt.Errorf("fill: %w", err)
	}
	firing, stop := context.WithCancel(ctx)
	fired := make(chan error, 1)
	go func() { fired <- c.fire(firing) }()
	err := c.steps(ctx)
	stop()
	if failed := <-fired; err == nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	return c.result, err
}

func (c *consoleRun) steps(ctx context.Context) error {
	sleepUntil(ctx, time.Now().Add(20*time.Second)) // the topic is made, and the forecast's picture is taken meanwhile
	opts, err := kafkaconn.Options(c.cfg, "waterclock-bench", nil)
	if err != nil {
		return err
	}
	if c.due, err = newConsumer(opts, c.cfg, "default"); err != nil {
		return err
	}
	defer c.due.Close()
	if _, err := c.watch(ctx, 3*time.Second); err != nil { // warm
		return err
	}
	r := c.result
	var forecasts atomic.Int64
	for _, step := range []struct {
		name string
		into *Lateness
		path func() string
	}{
		{"list", &r.List, func() string { return "/v1/triggers?sort=next_fire&fresh=false&limit=50" }},
		{"a user's list", &r.UserList, func() string {
			return "/v1/triggers?fresh=false&limit=50&user_id=" + c.user()
		}},
		{"search of a key", &r.Search, func() string { return "/v1/search?fresh=false&q=" + c.key() }},
		{"search of a user", &r.SearchUser, func() string { return "/v1/search?fresh=false&q=" + c.user() }},
		{"explain", &r.Explain, func() string { return "/v1/triggers/" + c.key() + "/explain?fresh=false" }},
		{"forecast", &r.Forecast, func() string {
			// Up to --rate 100 none asks what another has asked within a second, or it would get that one's answer.
			return "/v1/forecast?bucket=1h&by=channel&n=" + strconv.Itoa(2160-int(forecasts.Add(1)%100))
		}},
	} {
		if *step.into, err = c.pace(ctx, c.o.For, c.o.Rate, c.read(step.path)); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	// What fired during the reads is still to be consumed.
	if _, err = c.watch(ctx, 5*time.Second); err != nil {
		return err
	}
	if r.Alone, err = c.watch(ctx, c.o.For); err != nil {
		return err
	}
	return c.withConsoles(ctx, func() error {
		r.Watched, err = c.watch(ctx, c.o.For)
		return err
	})
}

func (c *consoleRun) user() string { return "u-" + strconv.Itoa(rand.IntN(c.users)) }
func (c *consoleRun) key() string  { return c.id + "-p-" + strconv.Itoa(rand.IntN(max(1, c.o.Pending))) }

// fill registers what is pending. It falls due from tomorrow on, within 90 days; one in ten is a series.
func (c *consoleRun) fill(ctx context.Context) error {
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC"}
	payload := c.text()
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range c.httpRun.o.Batches {
		g.Go(func() error {
			l, err := dialLean(c.host)
			if err != nil {
				return err
			}
			defer l.conn.Close()
			const lines = 5000
			for {
				from := int(next.Add(lines)) - lines
				n := min(lines, c.o.Pending-from)
				if n <= 0 || ctx.Err() != nil {
					return ctx.Err()
				}
				var body bytes.Buffer
				for i := from; i < from+n; i++ {
					fmt.Fprintf(&body, `{"id":"%s-p-%d","user_id":"u-%d",`, c.id, i, i/perUser)
					if i%10 == 0 {
						fmt.Fprintf(&body, `"recurrence":"FREQ=DAILY;BYHOUR=%d;BYMINUTE=%d","start":"2060-01-01T00:00",`+
							`"timezone":"%s",`, i/10%24, i/240%60, zones[i/10%len(zones)])
					} else {
						fmt.Fprintf(&body, `"delay":"%dm",`, 24*60+i%(89*24*60))
					}
					fmt.Fprintf(&body, `"payload":"%s"}`+"\n", payload)
				}
				if err := c.sendLines(l, n, body.Bytes()); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// fire registers triggers that are due a second later, until ctx ends. Their ids have their due time.
func (c *consoleRun) fire(ctx context.Context) error {
	l, err := dialLean(c.host)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	payload := c.text()
	const every = 100 * time.Millisecond
	n := max(1, c.o.Fires/int(time.Second/every))
	for at := time.Now(); ctx.Err() == nil; at = at.Add(every) {
		sleepUntil(ctx, at)
		var body bytes.Buffer
		for i := range n {
			due := at.Add(time.Second + every*time.Duration(i)/time.Duration(n))
			fmt.Fprintf(&body, `{"id":"%s-f-%d-%d","fire_at":"%s","payload":"%s"}`+"\n", c.id, due.UnixMilli(), i,
				due.UTC().Format("2006-01-02T15:04:05.000Z"), payload)
		}
		if err := c.sendLines(l, n, body.Bytes()); err != nil {
			return fmt.Errorf("fire: %w", err)
		}
	}
	return ctx.Err()
}

// watch reads due events for some time, and says how late they were and what the server used.
func (c *consoleRun) watch(ctx context.Context, length time.Duration) (w Watched, err error) {
	begun := time.Now()
	cpu, _ := c.usage()
	var late []int64
	for time.Since(begun) < length && ctx.Err() == nil {
		pctx, cancel := context.WithTimeout(ctx, time.Second)
		fs := c.due.PollFetches(pctx)
		cancel()
		now := time.Now()
		for it := fs.RecordIter(); !it.Done(); {
			_, rest, _ := strings.Cut(string(it.Next().Key), "-f-")
			ms, _, _ := strings.Cut(rest, "-")
			due, err := strconv.ParseInt(ms, 10, 64)
			if err != nil || time.UnixMilli(due).Before(begun) {
				continue
			}
			late = append(late, now.UnixMicro()-due*1000)
		}
	}
	if len(late) == 0 && ctx.Err() == nil {
		return w, errors.New("no due event came: the server does not keep up with what fires; try a smaller --fires")
	}
	after, _ := c.usage()
	return Watched{
		Fired: len(late), Late: lateOf(late), Cores: (after - cpu).Seconds() / time.Since(begun).Seconds(),
	}, ctx.Err()
}
