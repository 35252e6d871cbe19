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

// flagError suggests the nearest known flag, and says where flags are listed.
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

// nearKeys bounds how many triggers a mistyped key is compared with.
const nearKeys = 1000

// keys returns the keys of the first nearKeys triggers.
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

// unknownKey explains a key that does not exist. If the history has a refused command for the
// key, it gives the refusal. Otherwise it suggests the nearest existing key.
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
	known, _ := from.keys(ctx) // if this fails there is no hint
	return &failure{Exit: exitNotFound, Msg: key + ": not_found: no such trigger" + clean(near.Hint(key, known))}
}

// completeWithin bounds the wait after the TAB key.
const completeWithin = time.Second

// completeKey offers the shell the keys that begin with the given text.
func (a *app) completeKey(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
	c, err := a.loadConfig(false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	known, _ := newAPI(c).keys(ctx) // without an API there is nothing to offer
	return slices.DeleteFunc(known,
			func(key string) bool { return !strings.HasPrefix(key, begin) || clean(key) != key }),
		cobra.ShellCompDirectiveNoFileComp
}
