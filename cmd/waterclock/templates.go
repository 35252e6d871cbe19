package main

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/sinks/notify/templates"
	"github.com/waterclock/waterclock/topics"
)

func newTemplates(a *app) *cobra.Command {
	return parent("templates", "Texts of notifications, from the files of templates.dir", newTemplatesPreview(a))
}

// previewedText is the JSON of a rendered template.
type previewedText struct {
	Template string `json:"template_id"`
	Channel  string `json:"channel"`
	Locale   string `json:"locale"` // the locale of the file; "" is the default file
	Title    string `json:"title"`
	Body     string `json:"body"`
	HTML     string `json:"html,omitempty"`
	DeepLink string `json:"deep_link,omitempty"`
}

func newTemplatesPreview(a *app) *cobra.Command {
	var in templates.Input
	var data, at, zone string
	cmd := &cobra.Command{
		Use:   "preview ID",
		Short: "Render a template with data, as a worker does",
		Long: `Render a template with data, as a worker does. It reads the files of
templates.dir and asks nobody. Every file there is checked first.`,
		Example: "  waterclock templates preview pills --templates-dir ./texts --locale de-AT " +
			`--data '{"name":"Ada","count":2}'`,
		Args: argsBetween(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if c.Templates.Dir == "" {
				return usagef("templates.dir is unset: name it with --templates-dir DIR")
			}
			if !slices.Contains(topics.NotificationChannels, in.Channel) {
				return usagef("--channel %q: write push, sms or email", in.Channel)
			}
			content, _, err := a.readArgument(data)
			if err != nil {
				return err
			}
			if in.Data, err = templates.Data(content); err != nil {
				return usagef("--data: %v", err)
			}
			if in.LocalTime, err = previewTime(at, zone); err != nil {
				return err
			}
			set, err := templates.Load(c.Templates.Dir)
			if err != nil {
				return usagef("%v", err)
			}
			return a.printTemplate(set, args[0], in)
		},
	}
	cmd.Flags().StringVar(&in.Channel, "channel", "email", "channel of the message: push, sms or email")
	cmd.Flags().StringVar(&in.Locale, "locale", "", "language of the user, such as de-AT")
	cmd.Flags().StringVar(&data, "data", "{}", "template_data: `JSON`, @file, or - for standard input")
	cmd.Flags().StringVar(&at, "at", "", "scheduled `instant`, RFC 3339; the default is now")
	cmd.Flags().StringVar(&zone, "tz", "", "the user's time `zone`; the default is UTC")
	a.flags.Bind(cmd.Flags(), "templates.dir")
	cmd.Flags().StringVar(&in.AckURL, "ack-url", "https://example.com/a/TOKEN", "link to acknowledge")
	return cmd
}

func previewTime(at, zone string) (templates.LocalTime, error) {
	instant := time.Now()
	if at != "" {
		var err error
		if instant, err = time.Parse(time.RFC3339, at); err != nil {
			return templates.LocalTime{}, usagef("--at %q is not an instant: write 2026-11-20T09:00:00Z", at)
		}
	}
	zones := calendar.Embedded()
	if zone != "" {
		if _, err := zones.Lookup(zone); err != nil {
			return templates.LocalTime{}, usagef("--tz: %v", err)
		}
	}
	return templates.LocalTimeAt(instant, zone, zones), nil
}

func (a *app) printTemplate(set *templates.Set, id string, in templates.Input) error {
	text, err := set.Render(id, in)
	if none, ok := errors.AsType[*templates.NotFoundError](err); ok {
		words := none.Error()
		if !none.None {
			words += "; there are: " + strings.Join(set.IDs(), ", ")
		}
		return &failure{Exit: exitNotFound, Msg: words}
	}
	if err != nil {
		return failf("%v", err)
	}
	shown := previewedText{id, in.Channel, text.Locale, text.Title, text.Body, text.HTML, text.DeepLink}
	rows := [][2]string{{"template", id}, {"locale", text.Locale}, {"title", text.Title}, {"body", text.Body}}
	for _, more := range [][2]string{{"html", text.HTML}, {"deep link", text.DeepLink}} {
		if more[1] != "" {
			rows = append(rows, more)
		}
	}
	return a.out.record(shown, rows)
}
