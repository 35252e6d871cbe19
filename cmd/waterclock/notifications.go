package main

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
)

func newNotifications(a *app) *cobra.Command {
	return parent("notifications", "Show what became of users' notifications on each channel", newNotificationsList(a),
		newNotificationsGet(a))
}

func newNotificationsList(a *app) *cobra.Command {
	var user, from, to string
	var content bool
	limit := 100
	cmd := &cobra.Command{
		Use:   "list --user U",
		Short: "Print a user's notifications, the newest first",
		Long: `Print what became of a user's notifications on each channel, the newest first. It asks
the API at --url, which needs a history. An answer may lack what has happened in the last
second.`,
		Example: "  waterclock notifications list --user u_81\n" +
			"  waterclock notifications list --user u_81 --from 2026-11-01T00:00:00Z --content -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if user == "" {
				return usagef("name the user with --user")
			}
			q, err := queryOf(cmd.Flags(), map[string]*string{"from": &from, "to": &to}, "")
			if err != nil {
				return err
			}
			if content {
				q.Set("content", "1")
			}
			api, err := a.httpAPI()
			if err != nil {
				return err
			}
			all, err := fetchPages[gateway.Notification](cmd.Context(), api,
				"/v1/users/"+url.PathEscape(user)+"/notifications", q, limit)
			if err != nil {
				return err
			}
			return a.printNotifications(all)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&user, "user", "", "whose notifications")
	fs.StringVar(&from, "from", "", "only what first went out at or after this `time`")
	fs.StringVar(&to, "to", "", "only what first went out before this `time`")
	fs.BoolVar(&content, "content", false, "with what they said")
	fs.IntVarP(&limit, "limit", "n", limit, "at most this many; 0 for all")
	return cmd
}

func (a *app) printNotifications(all []gateway.Notification) error {
	items := anyOf(all)
	header := []string{"created", "notification", "type", "channels", "acked"}
	return a.out.list(items, header, func(i int) []string {
		n := &all[i]
		return []string{n.CreatedAt, n.NotificationID, n.Type, statusText(n), n.AckedAt}
	})
}

// statusText lists each channel with its status.
func statusText(n *gateway.Notification) string {
	var all []string
	for _, channel := range slices.Sorted(maps.Keys(n.ChannelStatus)) {
		all = append(all, channel+":"+n.ChannelStatus[channel])
	}
	return strings.Join(all, " ")
}

func newNotificationsGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Print what became of one occurrence on each channel, and what it said",
		Long: `Print what became of one occurrence on each channel, and what it said. ID is the ce_id
without #step. It asks the API at --url, which needs a history.`,
		Example: "  waterclock notifications get pills@2026-11-20T09:00:00",
		Args:    argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := a.httpAPI()
			if err != nil {
				return err
			}
			var n gateway.Notification
			if err := api.get(cmd.Context(), "/v1/notifications/"+url.PathEscape(args[0]), &n); err != nil {
				return err
			}
			rows := [][2]string{
				{"notification", n.NotificationID},
				{"trigger", n.TriggerID},
				{"user", n.UserID},
				{"type", n.Type},
				{"created", n.CreatedAt},
				{"channels", statusText(&n)},
				{"acked", n.AckedAt},
			}
			if c := n.Content; c != nil {
				rows = append(rows, [][2]string{
					{"title", c.Title}, {"body", c.Body}, {"link", c.DeepLink}, {"template", c.TemplateID},
				}...)
			}
			return a.out.record(&n, rows)
		},
	}
}
