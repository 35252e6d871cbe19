package main

import (
	"context"
	"encoding/json"
	"fmt"

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
most 20 events a second are printed; how many are left out is said on standard error. It asks the API
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
	seen := 0
	err := from.serverSent(ctx, path, "", nil, func(_, event, data string) (done bool, err error) {
		switch event {
		case "fact":
			err = a.liveFact(data)
		case "state":
			seen++
			err = a.liveState(data, states)
		}
		if err != nil {
			return false, fmt.Errorf("read the stream of %s: %w", from.base, err)
		}
		return seen == n && n > 0, nil
	})
	if interrupted(ctx) {
		return nil
	}
	return err
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
		a.note("events may be missing here: a partition has a new owner")
	}
	if len(s.Silent) > 0 {
		a.note("partitions %v do not answer: their events are missing", s.Silent)
	}
	if !show {
		return nil
	}
	return a.out.item(&s, func() string {
		return fmt.Sprintf("%s  state  %d of %d partitions fire  fired in the last minute: %d  p50=%sms  p99=%sms",
			s.At, s.Ready, s.Partitions, s.Fires, millis(s.P50), millis(s.P99))
	})
}
