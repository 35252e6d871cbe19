package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/preferences"
)

func newPreferences(a *app) *cobra.Command {
	return parent("preferences", "Read and replace what a user wants of notifications: channels, types, quiet hours",
		newPreferencesGet(a), newPreferencesSet(a))
}

func preferencesPath(user string) string { return "/v1/preferences/" + url.PathEscape(user) }

func newPreferencesGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get USER",
		Short: "Print a user's preferences; for a user without any, the defaults",
		Long: `Print a user's preferences. With -o json it is what set takes. It asks the API
at --url.`,
		Example: "  waterclock preferences get u_81 -o json > u_81.json",
		Args:    argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			_, answer, err := from.call(cmd.Context(), http.MethodGet, preferencesPath(args[0]), nil, nil)
			if err != nil {
				return err
			}
			return a.printPreferences(args[0], answer)
		},
	}
}

func newPreferencesSet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "set USER [FILE]",
		Short: "Replace a user's preferences by a JSON object; - or no FILE is standard input",
		Long: `Replace a user's preferences by one JSON object, and print them. What the object
leaves out is reset, as PUT does. A new timezone moves the user's triggers with
follow_user: their wall times stay. It asks the API at --url.`,
		Example: `  echo '{"opted_out_channels":["sms"]}' | waterclock preferences set u_81` + "\n" +
			"  waterclock preferences set u_81 u_81.json",
		Args: argsBetween(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, content, err := a.readOptionalFile(args[1:])
			if err != nil {
				return err
			}
			if !json.Valid(content) {
				return usagef("%s is not JSON: write one object, such as {\"locale\":\"de\"}", file)
			}
			to, err := a.httpAPI()
			if err != nil {
				return err
			}
			_, answer, err := to.call(cmd.Context(), http.MethodPut, preferencesPath(args[0]), nil,
				json.RawMessage(content))
			if err != nil {
				return err
			}
			return a.printPreferences(args[0], answer)
		},
	}
}

// printPreferences prints the API's answer. As JSON it prints the answer unchanged.
func (a *app) printPreferences(user string, answer []byte) error {
	p, err := preferences.Parse(answer)
	if err != nil {
		return failf("the answer is not from a Waterclock API: %v", err)
	}
	return a.out.record(json.RawMessage(answer), preferenceRows(user, p))
}

func preferenceRows(user string, p *preferences.Preferences) [][2]string {
	d := p.Document()
	rows := [][2]string{
		{"user", user},
		{"opted out of", strings.Join(d.OptedOut, ", ")},
		{"preferred", strings.Join(d.Preferred, ", ")},
		{"quiet hours", quietWords(&d.Quiet)},
		{"timezone", d.Zone},
		{"locale", d.Locale},
		{"email", d.Addresses.Email},
		{"sms", d.Addresses.SMS},
	}
	if n := len(d.Addresses.Push); n > 0 {
		rows = append(rows, [2]string{"push addresses", strconv.Itoa(n)})
	}
	var types []string
	for name, t := range p.Types {
		switch {
		case t.Channels == nil:
			types = append(types, fmt.Sprintf("%s: %v", name, t.Wanted))
		default:
			for channel, wanted := range t.Channels {
				types = append(types, fmt.Sprintf("%s on %s: %v", name, channel, wanted))
			}
		}
	}
	sort.Strings(types)
	rows = append(rows, [2]string{"types", strings.Join(types, ", ")})
	if !slices.ContainsFunc(rows[1:], func(row [2]string) bool { return row[1] != "" }) {
		rows = append(rows, [2]string{"note", "the defaults: everything is wanted, at every hour"})
	}
	return rows
}

func quietWords(q *preferences.QuietDocument) string {
	if q.From == "" {
		return ""
	}
	text := q.From + " to " + q.To
	if q.Days != nil {
		text += " on " + strings.Join(q.Days, ", ")
	}
	if q.Channels != nil {
		text += ", for " + strings.Join(q.Channels, ", ")
	}
	return text
}
