package topics

import (
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// TestRefusalsNameCandidates: a refusal says what to write, the nearest first.
func TestRefusalsNameCandidates(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  *Record
		want string
	}{
		{"an op near one", command(`{"op":"cancle"}`), `"cancle" is no op; did you mean cancel? The ops are cancel, `},
		{"an op near none", command(`{"op":"frobnicate"}`), `"frobnicate" is no op; the ops are `},
		{"an op by header", command("", "wc-op=pauze"), `The ops are pause, `},
		{"an empty op", command(`{"op":""}`), `"" is no op; the ops are `},
		{
			"a header that is the prefix alone", command("", "wc-=7m", "wc-delay=7m"),
			`header "wc-" names no field: write wc-op, wc-delay`,
		},
		{"the same in upper case", command("", "WC-=7m"), `header "WC-" names no field`},
		{"a field without a name", register(`"delay":"7m","":1`), `"" is no field`},
	} {
		_, err := DecodeCommand(c.rec, Limits{}, nil)
		refusal, ok := err.(*trigger.Error)
		if !ok || !strings.Contains(refusal.Msg, c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
			continue
		}
		for _, op := range trigger.OpNames() {
			if refusal.Code == trigger.CodeUnknownOp && !strings.Contains(refusal.Msg, op) {
				t.Errorf("%s: %q does not name %s", c.name, refusal.Msg, op)
			}
		}
	}
}
