package calendar

import (
	"strings"
	"testing"
)

// TestRefusalPosition: a refusal of a rule points at its fault and says what
// to write instead. The caret stands under the fault.
func TestRefusalPosition(t *testing.T) {
	for _, c := range []struct {
		rule, caret, msg string
		code             Code
	}{
		// cron items
		{"cron:61 * * * *", "     ^", "out of range 0-59", CodeInvalidRule},
		{" cron: 0  24 * * *", "          ^", "midnight is 0", CodeInvalidRule},
		{"cron:0,5,60 * * * *", "         ^", "0-59", CodeInvalidRule},
		{"cron:*/0 * * * *", "     ^", "*/5", CodeInvalidRule},
		{"cron:*/12345 * * * *", "     ^", "1 to 9999", CodeInvalidRule},
		{"cron:0 22-6 * * *", "       ^", "write 22-23,0-6", CodeInvalidRule},
		{"cron:0 0 * * FRI-MON", "             ^", "write FRI-SAT,SUN-MON", CodeInvalidRule},
		{"cron:0 0 * NOV-FEB *", "           ^", "write NOV-DEC,JAN-FEB", CodeInvalidRule},
		{"cron:0 0 * * 6-1", "             ^", "write 6,0-1", CodeInvalidRule},
		{"cron:0 0 * * 7-1", "             ^", "write 0-1", CodeInvalidRule},
		{"cron:0 22-6/2 * * *", "       ^", "two ranges", CodeInvalidRule},
		{"cron:0 0 * * MONDAY", "             ^", "did you mean MON?", CodeInvalidRule},
		{"cron:0 0 * january *", "           ^", "did you mean JAN?", CodeInvalidRule},
		{"cron:0 0 * * perl", "             ^", "write 1, MON, 1-5", CodeInvalidRule},
		{"cron:0 0 L-3 * *", "         ^", "FREQ=MONTHLY;BYMONTHDAY=-4", CodeInvalidRule},
		{"cron:0 0 * * L5", "             ^", "write 5L", CodeInvalidRule},
		{"cron:0 0 * * MON#6", "             ^", "MON#1", CodeInvalidRule},
		{"cron:H/15 * * * *", "     ^", "jitter", CodeInvalidRule},
		{"cron:0 1~5 * * *", "       ^", "jitter", CodeInvalidRule},
		{"cron:? 9 * * *", "     ^", "write *", CodeInvalidRule},
		{"cron:1,,2 * * * *", "       ^", "is empty", CodeInvalidRule},
		// lines out of crontabs
		{"cron:0 9 * * 1-5 root /usr/bin/backup", "                 ^", "write cron:0 9 * * 1-5", CodeInvalidRule},
		{"cron:*/5\t* * * *\t/bin/true # often", "                 ^", "write cron:*/5 * * * *", CodeInvalidRule},
		{"cron:0 9 * * 1-5 # weekdays", "                 ^", "write cron:0 9 * * 1-5", CodeInvalidRule},
		{"cron:@daily /bin/true", "            ^", "write cron:@daily", CodeInvalidRule},
		{"cron:@daily root /bin/echo one two", "            ^", "write cron:@daily", CodeInvalidRule},
		{"*/5 * * * * root /bin/true", "            ^", "write cron:*/5 * * * *", CodeInvalidRule},
		{"0 5 * * * TZ=UTC /bin/true", "          ^", "write cron:0 5 * * *", CodeInvalidRule},
		{"cron:MAILTO=root", "     ^", "setting of a crontab", CodeInvalidRule},
		{"cron:# every day", "     ^", "comment", CodeInvalidRule},
		{"cron:0 0 9 * * MON", "     ^", "without seconds", CodeInvalidRule},
		{"cron:0 9 * *", "     ^", "4 fields", CodeInvalidRule},
		{"cron(0 9 * * ? *)", "^", "cron:", CodeInvalidRule},
		{"rate(5 minutes)", "^", "every:5m", CodeInvalidRule},
		// combinations of rule parts
		{"FREQ=WEEKLY;BYDAY=MO,2MO", "                  ^", "MONTHLY", CodeInvalidRule},
		{"FREQ=WEEKLY;BYMONTHDAY=1", "                       ^", "FREQ=MONTHLY", CodeInvalidRule},
		{"FREQ=YEARLY;INTERVAL=2;BYWEEKNO=5", "                     ^", "drop INTERVAL", CodeDisputedRule},
		{"FREQ=YEARLY;BYMONTHDAY=1", "                       ^", "add BYMONTH", CodeDisputedRule},
		{"FREQ=DAILY;COUNT=3;UNTIL=20261231T000000", "                         ^", "leave one out", CodeDisputedRule},
		{"FREQ=YEARLY;BYEASTER=0", "                     ^", "include", CodeDisputedRule},
		{"FREQ=DAILY;BYSETPOS=1", "                    ^", "BYDAY", CodeInvalidRule},
		{"FREQ=DAILY;INTERVAL=9000000000000000000", "                    ^", "overflows", CodeInvalidRule},
		{"FREQ=DAILY INTERVAL=2", "     ^", "separated by ;", CodeInvalidRule},
		{"FREQ=NEVER", "     ^", "DAILY, HOURLY", CodeInvalidRule},
		{"FREQ=DAILY;FOO=1", "           ^", "BYDAY", CodeInvalidRule},
		{"EXRULE:FREQ=DAILY", "^", "exclude", CodeInvalidRule},
	} {
		_, err := Compile(Embedded(), Spec{Recurrence: c.rule, Limits: Limits{}.Preview()})
		wantError(t, c.rule, err, c.code, "recurrence", c.msg)
		if e, ok := err.(*Error); ok && e.Pos != strings.Index(c.caret, "^") {
			t.Errorf("%s: position %d, want %d\n%s\n%s", e.Msg, e.Pos, strings.Index(c.caret, "^"), c.rule, c.caret)
		}
	}
}
