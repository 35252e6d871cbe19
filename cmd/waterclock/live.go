package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/topics"
)

func newLive(a *app) *cobra.Command {
	n, states := 0, false
	cmd := &cobra.Command{
		Use:   "live",
		Short: "Follow what happens to all triggers now",
		Long: `Follow what happens to all triggers of your tenant, from now on, until you interrupt it. At
most 20 facts a second are printed; how many are left out is said on standard error. It asks the API
at --url. 'waterclock events tail' reads all from Kafka.`,
		Example: "  waterclock live\n  waterclock live --states -o ndjson",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if n < 0 {
				return usagef("-n %d: write a number of seconds, or 0 for no end", n)
			}
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			return a.live(cmd.Context(), from, n, states)
		},
	}
	cmd.Flags().IntVarP(&n, "number", "n", 0,
		"stop after this many states, of which there is one a second; 0 for no end")
	cmd.Flags().BoolVar(&states, "states", false, "print the states, too: partitions, and lateness of the last minute")
	return cmd
}

// live prints a live stream.
func (a *app) live(ctx context.Context, from *api, n int, states bool) error {
	path := "/v1/live"
	if n > 0 {
		path += fmt.Sprint("?n=", n)
	}
	answer, err := from.open(ctx, http.MethodGet, path, http.Header{"Accept": {"text/event-stream"}}, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, 1<<20)
	var name string
	seen := 0
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "event":
			name = value
		case field == "data" && name == "fact":
			err = a.liveFact(value)
		case field == "data" && name == "state":
			seen++
			err = a.liveState(value, states)
		}
		if err != nil {
			return fmt.Errorf("read the stream of %s: %w", from.base, err)
		}
	}
	switch {
	case interrupted(ctx) || n > 0 && seen == n:
		return nil
	case lines.Err() != nil:
		return fmt.Errorf("follow %s: %w", from.base, lines.Err())
	}
	return failf("%s ended the stream", from.base)
}

func (a *app) liveFact(data string) error {
	var e topics.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return err
	}
	return a.out.item(&e, func() string { return eventLine(&e) })
}

func (a *app) liveState(data string, show bool) error {
	var s gateway.LiveState
	if err := json.Unmarshal([]byte(data), &s); err != nil {
		return err
	}
	if s.Omitted > 0 {
		a.note("%d of %d facts are left out", s.Omitted, s.Facts)
	}
	if s.Missed {
		a.note("facts may be missing here: a partition has a new owner")
	}
	if len(s.Silent) > 0 {
		a.note("partitions %v do not answer: what happens there is missing", s.Silent)
	}
	if !show {
		return nil
	}
	return a.out.item(&s, func() string {
		return fmt.Sprintf("%s  state  %d of %d partitions fire  fired in the last minute: %d  p50=%sms  p99=%sms",
			s.At, s.Ready, s.Partitions, s.Fires, millis(s.P50), millis(s.P99))
	})
}
