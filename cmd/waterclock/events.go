package main

import (
	"encoding/json"
	"path"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

func newEvents(a *app) *cobra.Command {
	return parent("events", "Read the event log, export it, record all topics, check them", newEventsTail(a),
		newEventsExport(a), newEventsViews(a), newEventsRecord(a), newEventsVerify(a))
}

type eventsFlags struct {
	tailFlags
	trigger, kind string
}

func newEventsTail(a *app) *cobra.Command {
	f := &eventsFlags{}
	cmd := &cobra.Command{
		Use:     "tail",
		Short:   "Print events as they happen",
		Example: "  waterclock events tail --type 'occurrence.*' -o ndjson --jq '[.trigger,.lateness_ms]'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("events tail takes no arguments: for one trigger write --trigger %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"trigger", "type"} {
				if err := refuseEmpty(cmd.Flags(), name); err != nil {
					return err
				}
			}
			if _, err := path.Match(f.kind, ""); err != nil {
				return usagef("--type %s: %v", f.kind, err)
			}
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.tail(cmd.Context(), c, []string{c.Topic("events")}, &f.tailFlags, f.show(a))
		},
	}
	f.bind(cmd)
	cmd.Flags().StringVar(&f.trigger, "trigger", "", "only of this trigger `key`")
	cmd.Flags().StringVar(&f.kind, "type", "", "only of this type; * stands for anything: 'occurrence.*'")
	return cmd
}

// show prints the events that match. It prints JSON unchanged from the log, so that fields of a
// newer version are not lost.
func (f *eventsFlags) show(a *app) func(*kgo.Record) (bool, error) {
	return func(r *kgo.Record) (bool, error) {
		var e topics.Event
		if err := json.Unmarshal(r.Value, &e); err != nil {
			a.note("the record at %s/%d/%d is not an event: %v", r.Topic, r.Partition, r.Offset, err)
			return false, nil
		}
		if f.trigger != "" && e.Trigger != f.trigger {
			return false, nil
		}
		if fits, _ := path.Match(f.kind, e.Type); f.kind != "" && !fits {
			return false, nil
		}
		return true, a.out.item(json.RawMessage(r.Value), func() string { return eventLine(&e) })
	}
}
