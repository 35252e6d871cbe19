package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
)

// SDK is the CloudEvents project's own reader for a language.
type SDK interface {
	Name() string
	// Events reads the first n committed records of the topic as CloudEvents.
	// A record that is none is an error. What the SDK understood comes in the
	// JSON format: attributes, and data or data_base64.
	Events(ctx context.Context, bootstrap, topic string, n int) ([]map[string]any, error)
}

// SDKs are those of Python and JavaScript, each behind the client of its
// language.
func SDKs(t testing.TB) (all []SDK) {
	for _, c := range Clients(t) {
		if s, ok := c.(script); ok && s.name != "java" {
			all = append(all, s)
		}
	}
	return all
}

func (s script) Events(ctx context.Context, bootstrap, topic string, n int) (events []map[string]any, err error) {
	out, err := run(ctx, s.env, nil, append(s.command[:len(s.command):len(s.command)], "events", bootstrap, topic,
		fmt.Sprint(n))...)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("%s: decode %q: %w", s.name, line, err)
		}
		events = append(events, e)
	}
	if len(events) != n {
		return nil, fmt.Errorf("%s: %d events, not %d", s.name, len(events), n)
	}
	return events, nil
}
