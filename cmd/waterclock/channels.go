package main

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newChannels(a *app) *cobra.Command {
	return parent("channels", "List the channels, and remove those that nobody uses", newChannelsList(a),
		newChannelsRemove(a))
}

func newChannelsList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Print the channels with their topics",
		Long: `Print the channels that settings name, those that always exist, and every one that
has a due topic. waiting is how many due events the group of the channel's worker has
not read, for operators. It asks the API at --url.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			var all gateway.Channels
			if err := from.get(cmd.Context(), "/v1/channels", &all); err != nil {
				return err
			}
			items := anyOf(all.Items)
			columns := []string{"channel", "topic", "partitions", "removable", "waiting"}
			return a.out.list(items, columns, func(i int) []string {
				c := &all.Items[i]
				waiting := ""
				if c.Waiting != nil {
					waiting = strconv.FormatInt(*c.Waiting, 10)
				}
				return []string{c.Name, c.Topic, strconv.Itoa(c.Partitions), strconv.FormatBool(c.Removable), waiting}
			})
		},
	}
}

func newChannelsRemove(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a channel that a command created and no trigger names, with its topic",
		Long: `Remove a channel and its topic, with the due events that are still on it. It is
refused (exit code 4) while triggers that are not over name the channel, and for a
channel that settings name. While channels.auto_create is on, a register creates it
anew. It asks the API at --url, as an operator.`,
		Example: "  waterclock channels remove typo",
		Args:    argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			from.within = deleteWithin
			var c gateway.Channel
			path := "/v1/channels/" + url.PathEscape(args[0])
			if err := from.ask(cmd.Context(), http.MethodDelete, path, &c); err != nil {
				return err
			}
			return a.out.record(c, [][2]string{{"channel", c.Name}, {"topic", c.Topic}, {"result", "removed"}})
		},
	}
}

// httpAPI returns the API client for verbs that need the partition owners or the history.
func (a *app) httpAPI() (*api, error) {
	c, err := a.config(false)
	if err != nil {
		return nil, err
	}
	if err := needAPI(c); err != nil {
		return nil, err
	}
	return newAPI(c), nil
}
