package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/trigger"
)

func newErase(a *app) *cobra.Command {
	cmd := a.verb(trigger.OpErase, "erase", "Cancel triggers and forget their content, or forget a user",
		&commandFlags{}, nil)
	cmd.Use = "erase (KEY... | --user USER [--wait])"
	cmd.Long = "Cancel triggers and forget their content: state and history at once, copies in the logs as they " +
		"compact (8 days) or expire. With --user it forgets a user: preferences, addresses, and the content of all " +
		"of the user's triggers. That asks the API at --url, which goes on with it by itself; --wait waits until " +
		"it is done."
	cmd.Example = "  waterclock erase hold-8c4\n  waterclock erase --user u_81 --wait"
	var user string
	var untilDone bool
	cmd.Flags().StringVar(&user, "user", "", "forget all of this user")
	cmd.Flags().BoolVar(&untilDone, "wait", false, "with --user: wait until it is done")
	ofKeys := cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch byUser := cmd.Flags().Changed("user"); {
		case byUser && user == "":
			return usagef("--user is empty: name the user to forget")
		case byUser && len(args) > 0:
			return usagef("erase takes the KEYs of triggers, or --user, not both")
		case byUser && cmd.Flags().Changed("note"):
			return usagef("--note goes with the KEYs of triggers")
		case !byUser && untilDone:
			return usagef("--wait goes with --user")
		case !byUser:
			return keysArg(cmd, args)
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("user") {
			return a.eraseUser(cmd.Context(), user, untilDone)
		}
		return ofKeys(cmd, args)
	}
	return cmd
}

// erasure is the progress of the erasure of a user.
type erasure struct {
	State    string `json:"state"`
	Triggers int    `json:"triggers"`
}

// erasurePoll is the time between two requests of --wait.
const erasurePoll = 500 * time.Millisecond

func (a *app) eraseUser(ctx context.Context, user string, untilDone bool) error {
	to, err := a.httpAPI()
	if err != nil {
		return err
	}
	path := "/v1/users/" + url.PathEscape(user)
	_, answer, err := to.call(ctx, http.MethodDelete, path, nil, nil)
	for {
		if err != nil {
			return err
		}
		var e erasure
		if err := json.Unmarshal(answer, &e); err != nil || e.State == "" {
			return failf("the answer is not from a Waterclock API: %.100q", answer)
		}
		if untilDone && e.State == "done" && e.Triggers == 0 {
			a.note("No trigger of user %s was found. Is that the id? If the user was erased before, only what came "+
				"later counts. Preferences and addresses, if there were any, are gone.", user)
		}
		if !untilDone || e.State == "done" {
			return a.out.record(e, [][2]string{
				{"user", user},
				{"state", e.State},
				{"triggers", strconv.Itoa(e.Triggers)},
			})
		}
		if wait.For(ctx, erasurePoll); ctx.Err() != nil {
			return ctx.Err()
		}
		_, answer, err = to.call(ctx, http.MethodGet, path+"/erasure", nil, nil)
	}
}
