package topics

import (
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

const wholeTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A traceparent that is none goes nowhere, and refuses nothing: in either
// spelling, beside any op.
func TestTraceParent(t *testing.T) {
	other := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for name, c := range map[string]struct {
		value   string
		headers []string
		want    string
	}{
		"of the record":   {`{"op":"register","delay":"1s"}`, []string{wholeTrace}, wholeTrace},
		"header spelling": {"", []string{wholeTrace}, wholeTrace},
		"a cancel's":      {`{"op":"cancel"}`, []string{wholeTrace}, wholeTrace},
		"not sampled":     {`{"op":"register","delay":"1s"}`, []string{other}, other},
		"the field wins": {
			`{"op":"register","delay":"1s","headers":{"traceparent":"` + other + `"}}`,
			[]string{wholeTrace},
			other,
		},
		"the field is none": {
			`{"op":"register","delay":"1s","headers":{"traceparent":"x"}}`,
			[]string{wholeTrace},
			wholeTrace,
		},
		"the first that is": {`{"op":"register","delay":"1s"}`, []string{"garbled", wholeTrace, other}, wholeTrace},
		"short":             {`{"op":"register","delay":"1s"}`, []string{wholeTrace[:54]}, ""},
		"upper case": {
			`{"op":"cancel"}`,
			[]string{"00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01"},
			"",
		},
		"zeros": {"", []string{"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}, ""},
		"empty": {`{"op":"register","delay":"1s"}`, []string{""}, ""},
		"none":  {`{"op":"register","delay":"1s"}`, nil, ""},
	} {
		rec := &Record{Key: []byte("k"), Value: []byte(c.value), Timestamp: appended}
		if c.value == "" {
			rec.Headers = append(rec.Headers, header("wc-delay", "1s"))
		}
		for _, h := range c.headers {
			rec.Headers = append(rec.Headers, header(traceParent, h))
		}
		cmd, err := DecodeCommand(rec, Limits{}, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := TraceParent(rec, cmd); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if cmd.Spec != nil && (cmd.Spec.TraceParent != c.want || len(cmd.Spec.Headers) != 0) {
			t.Errorf("%s: the due event gets %q and %v", name, cmd.Spec.TraceParent, cmd.Spec.Headers)
		}
	}
	if got := TraceParent(&Record{Headers: []trigger.Header{header(traceParent, wholeTrace)}},
		&trigger.Command{}); got != wholeTrace {
		t.Errorf("of what cannot be decoded: %q", got)
	}
}
