package main

import (
	"context"
	"fmt"
	"strings"

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
		Long: `Check what Waterclock stands on, and say what to change. A warning costs
speed or safety; a failure means that Waterclock does not run, or must not.
The exit code is 1 if anything failed.

Nothing is written but the marker of one aborted, empty transaction, which no
reader ever sees: it is how the brokers' clock is read.`,
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

// doctor collects findings. A check that cannot look says so as a finding;
// it never ends the examination.
type doctor struct {
	app      *app
	c        *config.Config
	findings []finding

	cl       *kgo.Client // nil where no broker answers
	admin    *kadm.Client
	throttle *kafkaconn.Throttle // of our own requests

	parts int32 // P: what commands has, else the setting
}

// finding is one line of the report.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn, fail
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Status: "ok", Detail: fmt.Sprintf(format, args...)})
}

func (d *doctor) warn(check, advice, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "warn", fmt.Sprintf(format, args...), advice})
}

func (d *doctor) fail(check, advice, format string, args ...any) {
	d.findings = append(d.findings, finding{check, "fail", fmt.Sprintf(format, args...), advice})
}

// examine looks at everything, from the brokers to this machine.
func (d *doctor) examine(ctx context.Context) {
	for _, w := range d.c.Warnings {
		d.warn("settings", "correct or remove it", "%s", w)
	}
	d.examineKafka(ctx)
	d.examineAPI(ctx)
	d.examineHost()
}

func (d *doctor) examineKafka(ctx context.Context) {
	d.throttle = kafkaconn.NewThrottle(nil)
	cl, err := d.app.kafka(ctx, d.c, kgo.WithHooks(d.throttle))
	if err != nil {
		d.fail("brokers", "everything else about Kafka waits for this", "%v", err)
		return
	}
	defer cl.Close()
	d.cl, d.admin = cl, kadm.NewClient(cl)
	for _, check := range []func(context.Context){
		d.brokers, d.versions, d.topics, d.replicas, d.retryPause, d.clock,
		d.foreignTransactions, d.engines, d.mirrors, d.receipts, d.quotas,
	} {
		check(ctx)
	}
}

// report prints the findings; the error says that something failed.
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
