package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waterclock/waterclock/internal/near"
	"github.com/waterclock/waterclock/trigger"
)

// flagError names the flag that was probably meant, and where flags are
// listed.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
		hint = near.Hint("--"+unknown.GetSpecifiedName(), known)
	}
	return usagef("%v%s (%s --help lists the flags)", err, hint, cmd.CommandPath())
}

// nearKeys bounds the triggers that a key is compared with: the first so many.
const nearKeys = 1000

// keys are those triggers' keys.
func (a *api) keys(ctx context.Context) (keys []string, err error) {
	var page struct {
		Items []struct {
			ID string `json:"trigger_id"`
		} `json:"items"`
	}
	query := url.Values{"limit": {strconv.Itoa(nearKeys)}}
	if err := a.get(ctx, "/v1/triggers?"+query.Encode(), &page); err != nil {
		return nil, err
	}
	for _, t := range page.Items {
		keys = append(keys, t.ID)
	}
	return keys, nil
}

// unknownKey words a key that is not there: with the refusal of its command, where the
// history knows of one, else with the nearest key that is there.
func (a *app) unknownKey(ctx context.Context, from *api, key string, err error) error {
	if exitOf(err) != exitNotFound {
		return err
	}
	if events, err := lastEvents(ctx, from, key); err == nil && len(events) > 0 {
		if e := events[len(events)-1]; e.Type == string(trigger.Rejected) {
			why := clean(fmt.Sprintf("; its command was refused at %s, %s: %s", e.OccurredAt, e.Reason, e.Detail))
			return &failure{Exit: exitNotFound, Msg: key + ": not_found: no such trigger" + why}
		}
	}
	known, _ := from.keys(ctx) // without them there is no hint
	return &failure{Exit: exitNotFound, Msg: key + ": not_found: no such trigger" + clean(near.Hint(key, known))}
}

// completeWithin is how long a person waits for the TAB key.
const completeWithin = time.Second

// completeKey offers the shell the keys that begin so.
func (a *app) completeKey(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	c, err := a.loadConfig(false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	known, _ := newAPI(c).keys(ctx) // no API: nothing to offer
	return slices.DeleteFunc(known,
			func(key string) bool { return !strings.HasPrefix(key, begin) || clean(key) != key }),
		cobra.ShellCompDirectiveNoFileComp
}
