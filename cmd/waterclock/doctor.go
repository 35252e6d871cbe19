package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
)

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "doctor",
		Short: "Check brokers, topics, clocks, disk and API, and say what to change; exit code 1 if something is " +
			"broken",
		Long: `Check brokers, topics, clocks, disk and API, and say what to change. A warning costs
speed or safety; a failure means that Waterclock does not run, or must not.
The exit code is 1 if anything failed.

It writes nothing but the marker of one aborted, empty transaction, to read the
brokers' clock. No reader sees that marker.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			d := &doctor{app: a, c: c}
			d.examine(cmd.Context())
			return d.report()
		},
	}
}

// doctor collects findings. A check that cannot run reports that as a finding. It never stops the
// other checks.
type doctor struct {
	app      *app
	c        *config.Config
	findings []finding

	cl       *kgo.Client // nil if no broker answers
	admin    *kadm.Client
	throttle *kafkaconn.Throttle // how long the brokers throttled our own requests

	parts int32 // P: the partitions of topic commands, or else the setting
}

// finding is one line of the report.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, skip, warn, fail
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Status: "ok", Detail: fmt.Sprintf(format, args...)})
}

// skip is for what was not checked, and need not be: neither ok nor a warning.
func (d *doctor) skip(check, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Status: "skip", Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, advice, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "warn", fmt.Sprintf(format, args...), advice})
}

func (d *doctor) fail(check, advice, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "fail", fmt.Sprintf(format, args...), advice})
}

// checkWithin bounds each check. All checks run in parallel.
const checkWithin = 5 * time.Second

// oneCheck is one check, and the name of its finding if it gets no answer.
type oneCheck struct {
	name string
	do   func(*doctor, context.Context)
}

// kafkaChecks are the checks that need brokers.
var kafkaChecks = []oneCheck{
	{"brokers", (*doctor).brokers},
	{"versions", (*doctor).versions},
	{"topics", (*doctor).topics},
	{"replicas", (*doctor).replicas},
	{"retry pause", (*doctor).retryPause},
	{"clock", (*doctor).clock},
	{"transactions", (*doctor).foreignTransactions},
	{"engines", (*doctor).engines},
	{"mirrors", (*doctor).mirrors},
	{"receipts", (*doctor).receipts},
	{"quotas", (*doctor).quotas},
	{"channels", (*doctor).channels},
}

// examine runs all checks: settings, Kafka, the API and this machine.
func (d *doctor) examine(ctx context.Context) {
	for _, w := range d.c.Warnings {
		d.warn("settings", "fix or remove it", "%s", w)
	}
	d.parts = int32(d.c.Topics.Partitions)
	d.atOnce(ctx, []oneCheck{
		{do: (*doctor).examineKafka},
		{do: (*doctor).examineAPI},
		{do: (*doctor).examinePreferences},
		{do: func(d *doctor, _ context.Context) { d.examineHost() }},
	})
}

func (d *doctor) examineKafka(ctx context.Context) {
	d.throttle = kafkaconn.NewThrottle(nil, nil)
	cl, err := d.app.kafka(ctx, d.c, kgo.WithHooks(d.throttle))
	if err != nil {
		d.fail("brokers", "all other checks of Kafka need this one", "%v", err)
		return
	}
	defer cl.Close()
	d.cl, d.admin = cl, kadm.NewClient(cl)
	d.atOnce(ctx, kafkaChecks)
}

// atOnce runs checks in parallel, so that brokers that do not answer cost one timeout and not one
// per check. The findings stay in the order of the checks.
func (d *doctor) atOnce(ctx context.Context, checks []oneCheck) {
	each := make([]doctor, len(checks))
	var wg sync.WaitGroup
	for i, c := range checks {
		each[i] = *d
		each[i].findings = nil
		wg.Go(func() { each[i].within(ctx, c) })
	}
	wg.Wait()
	for i := range each {
		d.findings = append(d.findings, each[i].findings...)
	}
}

// within runs one check with a timeout. After a timeout it drops the check's own findings,
// because they would give advice about ACLs for a broker that does not answer.
func (d *doctor) within(ctx context.Context, c oneCheck) {
	if c.name == "" {
		c.do(d, ctx)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	own := *d
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.do(&own, ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done(): // some requests of kgo outlast their context; they end with the client
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		d.fail(c.name, "check whether a broker hangs (its host, its disk), then run doctor again",
			"the brokers did not answer within %s", checkWithin)
		return
	}
	<-done
	d.findings = own.findings
}

// report prints the findings. It returns an error if a check failed.
func (d *doctor) report() error {
	items := make([]any, len(d.findings))
	count := map[string]int{}
	for i, f := range d.findings {
		items[i] = f
		count[f.Status]++
	}
	err := d.app.out.list(items, []string{"", "check", "finding"}, func(i int) []string {
		f := d.findings[i]
		text := f.Detail
		if f.Advice != "" {
			text = strings.TrimSuffix(text, ".") + ". " + upperFirst(f.Advice)
		}
		return []string{f.Status, f.Check, text}
	})
	if err != nil || count["fail"] == 0 {
		return err
	}
	return failf("%d of %d checks failed", count["fail"], len(d.findings))
}
