package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

type watermarkFlags struct{ channel, wait string }

func newWatermark(a *app) *cobra.Command {
	f := &watermarkFlags{}
	cmd := &cobra.Command{
		Use:   "watermark",
		Short: "Print up to when everything due has been emitted, or wait for it",
		Long: `Print up to which instant each partition has emitted everything that was due, and
what holds it back. With --wait it first waits until everything that was due at or
before that instant is out in all partitions. It asks the API at --url.

The exit code is 3 if no partition writes watermarks (watermarks.interval), or if
there is no such channel; --wait waits 5 s for the first watermark.`,
		Example: "  waterclock watermark\n" +
			"  waterclock watermark --channel push --wait 2026-03-03T14:00Z && ./nightly-report\n" +
			"  waterclock watermark -o json --jq .fired_through",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"channel", "wait"} {
				if err := refuseEmpty(cmd.Flags(), name); err != nil {
					return err
				}
			}
			var until trigger.Instant
			if f.wait != "" {
				ms, err := calendar.ParseInstant(f.wait)
				if err != nil {
					return usagef("--wait %s: write an instant such as 2026-03-03T14:00Z", f.wait)
				}
				until = trigger.Instant(ms)
			}
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			all, err := a.awaitWatermark(cmd.Context(), from, f, until)
			if err != nil {
				return err
			}
			return a.printWatermark(all)
		},
	}
	cmd.Flags().StringVar(&f.channel, "channel", "", "only the due topics of this `channel`")
	cmd.Flags().StringVar(&f.wait, "wait", "",
		"wait until everything due at or before this `instant` has been emitted: 2026-03-03T14:00Z")
	return cmd
}

// awaitWatermark asks until everything due by an instant has fired. It asks once if the flags
// name no instant.
func (a *app) awaitWatermark(ctx context.Context, from *api, f *watermarkFlags, until trigger.Instant) (
	all *gateway.Watermarks, err error,
) {
	path := "/v1/watermark"
	if f.channel != "" {
		path += "?" + url.Values{"channel": {f.channel}}.Encode()
	}
	w := outBy{until: until, out: map[int32]bool{}}
	begun := time.Now()
	var failing time.Time // since when the API has not answered; zero if the last request succeeded
	for noted := ""; ; {
		var answer gateway.Watermarks
		switch err := from.get(ctx, path, &answer); {
		case err == nil:
			failing = time.Time{}
		case all == nil && f.wait != "" && exitOf(err) == exitNotFound && time.Since(begun) < firstWithin:
			failing = time.Now() // the first watermark of a cluster or channel may not exist yet
		case all == nil || exitOf(err) != exitFailed || ctx.Err() != nil:
			return nil, err
		case failing.IsZero():
			a.note("%v; retrying", err)
			failing = time.Now()
		case time.Since(failing) > noAnswerFor:
			return nil, err
		}
		if failing.IsZero() {
			all = &answer
			missing := w.see(&answer)
			if f.wait == "" || missing == "" {
				return all, nil
			}
			if missing != noted {
				a.note("%s", missing)
				noted = missing
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", f.wait, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// noAnswerFor is how long --wait tolerates an API that does not answer, for example during a
// restart.
const noAnswerFor = time.Minute

// firstWithin is how long --wait waits for the first watermark.
const firstWithin = 5 * time.Second

// outBy tracks which partitions have fired everything due by an instant.
type outBy struct {
	until trigger.Instant
	out   map[int32]bool // partitions that are done; a watermark never goes back
}

// see processes an answer. It returns what holds the instant back, or "" if everything is out.
// The text names no instants, so that it changes only when the reasons change.
func (w *outBy) see(answer *gateway.Watermarks) string {
	var reasons []string
	for _, p := range answer.Missing {
		if !w.out[p] {
			reasons = append(reasons, fmt.Sprintf("partition %d writes no watermark", p))
		}
	}
	behind := 0
	for i := range answer.Items {
		m := &answer.Items[i]
		if w.out[m.Partition] {
			continue
		}
		through, err := calendar.ParseInstant(m.FiredThrough)
		held := slices.DeleteFunc(slices.Clone(m.Held), topics.IsHeldReason)
		switch {
		case err != nil || trigger.Instant(through) < w.until:
			behind++
			if len(m.Held) > 0 {
				reasons = append(reasons, fmt.Sprintf("partition %d: %s", m.Partition, strings.Join(m.Held, ", ")))
			}
		case len(held) > 0: // events that these topics refuse are missing below the watermark
			reasons = append(reasons, fmt.Sprintf("partition %d: %s", m.Partition, strings.Join(held, ", ")))
		default:
			w.out[m.Partition] = true
		}
	}
	switch {
	case len(reasons) > 0:
		return "held back by " + strings.Join(reasons, "; ")
	case behind > 0:
		return "waiting"
	}
	return ""
}

func (a *app) printWatermark(all *gateway.Watermarks) error {
	if a.out.format != "table" {
		return a.out.json(all)
	}
	t := a.out.table()
	t.AppendHeader(cells([]string{"partition", "fired through", "written at", "owner", "held"}))
	for i := range all.Items {
		m := &all.Items[i]
		t.AppendRow(cells([]string{
			strconv.Itoa(int(m.Partition)), m.FiredThrough, m.At, strconv.FormatInt(m.Term, 10),
			strings.Join(m.Held, ", "),
		}))
	}
	for _, p := range all.Missing {
		t.AppendRow(cells([]string{strconv.Itoa(int(p)), "", "", "", "writes no watermark"}))
	}
	_, err := fmt.Fprintf(a.out.w, "%s\n\nall: %s\n", trimRight(t.Render()), or(all.FiredThrough, "not known"))
	return err
}
