package calendar

import (
	"errors"
	"strings"
	"testing"
)

func codeOf(err error) Code {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return ""
	}
	return e.Code
}

// A number that no int holds is refused like any other: it once became a
// negative shift, which ended the process, and every one after it.
func TestCronNumberOutOfInt(t *testing.T) {
	for _, n := range []string{"9223372036854775808", "18446744073709551615", "18446744073709551617", strings.Repeat("9", 400)} {
		for _, rule := range []string{"N 0 * * *", "0 N * * *", "0 0 N * *", "0 0 NW * *", "0 0 * N *", "0 0 * * N", "0 0 * * NL", "0 0 * * N#1", "0 0 * * 1#N", "0 0 1-N * *", "*/N 0 * * *"} {
			rule = "cron:" + strings.ReplaceAll(rule, "N", n)
			if _, err := Compile(Embedded(), Spec{Recurrence: rule}); codeOf(err) != CodeInvalidRule {
				t.Errorf("%.60s: %v", rule, err)
			}
		}
	}
}
