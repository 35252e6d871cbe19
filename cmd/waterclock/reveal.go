package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"
)

// revealed is gateway.Revealed, with the payload as it was written.
type revealed struct {
	TriggerID     string          `json:"trigger_id"`
	Revision      int64           `json:"revision"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	PayloadBase64 string          `json:"payload_base64,omitempty"`
}

func newReveal(a *app) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use:   "reveal KEY",
		Short: "Print the payload of a trigger, on record",
		Long: `Print the payload of a trigger, as the console shows it. It is for people: topic audit has
who reads it, and the --note, before it is printed. It asks the API at --url, and needs a
role that may read payloads: reader, writer or operator.

What was erased cannot be shown: it is gone.`,
		Example: `  waterclock reveal pills-u81 --note "the user has asked"`,
		Args:    oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := a.httpAPI()
			if err != nil {
				return err
			}
			var body any
			if note != "" {
				body = map[string]string{"note": note}
			}
			_, answer, err := from.call(cmd.Context(), http.MethodPost, triggerPath(args[0])+":reveal", nil, body)
			if err != nil {
				return a.unknownKey(cmd.Context(), from, args[0], err)
			}
			var shown revealed
			if err := json.Unmarshal(answer, &shown); err != nil {
				return fmt.Errorf("the answer of %s is not from a Waterclock API: %w", from.base, err)
			}
			payload := string(shown.Payload)
			if payload == "" && shown.PayloadBase64 == "" {
				payload = "there is none, or none is kept because the trigger has ended"
			}
			return a.out.record(shown, [][2]string{
				{"trigger_id", shown.TriggerID},
				{"revision", strconv.FormatInt(shown.Revision, 10)},
				{"payload", payload},
				{"payload_base64", shown.PayloadBase64},
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "`reason`, which topic audit has")
	return cmd
}
