package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Scripts must not depend on how a command was sent: over Kafka and over HTTP a decision is the
// same JSON, except for the fields that only the event has.
func TestOneShapeThroughBothDoors(t *testing.T) {
	kafka, url := startDev(t)
	doors := map[string][]string{"kafka": {"--brokers", kafka}, "http": {"--url", url}}
	for _, line := range []string{
		"schedule K --every FREQ=DAILY --start 2030-01-01T09:00 --tz Europe/Berlin --channel orders-K",
		"schedule K --every FREQ=DAILY --start 2030-01-01T09:00 --tz Europe/Berlin --channel orders-K", // a duplicate
		"schedule K --every FREQ=DAILY --start 2030-01-02T09:00 --tz Europe/Berlin --channel orders-K",
		"skip K", "skip K --occurrence 2030-02-01", "snooze K --until 2030-01-01T10:00", "pause K", "pause K",
		"resume K",
		"schedule K --every cron:@daily", // which returns a note
		"rezone K --tz Asia/Tokyo", "reschedule K --at 2030-05-01T09:00:00Z", "snooze K --until 2030-06-01T09:00:00Z",
		"cancel K", "cancel K",
		"schedule K --every FREQ=DAILY --start 2030-01-01T09:00 --tz Europe/Berlin --channel orders-K",
		"cancel unknown", "skip unknown",
	} {
		said, codes := map[string]map[string]any{}, map[string]int{}
		for door, flags := range doors {
			args := strings.Fields(strings.ReplaceAll(line, "K", door))
			r := cli(t, nil, "", append(args, append(flags, "-o", "ndjson")...)...)
			r.out = strings.ReplaceAll(r.out, "orders-"+door, "orders-K") // each way has its own new channel
			var d map[string]any
			if r.out != "" && json.Unmarshal([]byte(r.out), &d) != nil {
				t.Fatalf("%s by %s: %s", line, door, r.out)
			}
			if d != nil && d["decided"] != true {
				t.Errorf("%s by %s is not decided: %s", line, door, r.out)
			}
			for _, name := range []string{"trigger_id", "result", "reason", "source"} {
				delete(d, name)
			}
			said[door], codes[door] = d, r.code
		}
		if !reflect.DeepEqual(said["kafka"], said["http"]) || codes["kafka"] != codes["http"] {
			t.Errorf("%s\nby Kafka %v, exit code %d\nby HTTP  %v, exit code %d", line, said["kafka"], codes["kafka"],
				said["http"], codes["http"])
		}
		if at, _ := said["kafka"]["fire_at"].(string); at == "" && strings.HasPrefix(line, "schedule") {
			t.Errorf("%s does not say when it fires", line)
		}
	}
}

// A wrong value is a usage error, whether the command line, the API or the engine detects it.
func TestWrongValuesAreWrongUsage(t *testing.T) {
	kafka, url := startDev(t)
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	cli(t, nil, "", "schedule", "k", "--in", "1h", "--brokers", kafka).want(t, exitOK)
	for _, line := range []string{
		"schedule k --in soon", "schedule k --in 7m --priority urgent", "schedule k --every FREQ=SOMETIMES",
		"schedule k --in 7m --misfire never",
		"schedule k --in 7m --data no", "schedule k --at 2030-01-01T09:00 --tz Europe/Berln", "snooze k --for soon",
		"rezone k --tz Europe/Berln",
		"schedule k --every every:1s", "schedule k --every FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
		"schedule k --in 4000d",
		"schedule k --at 2020-01-01T00:00:00Z",
		"schedule k --in 7m --callback-url http://u:p@x/",
		"schedule k --in 7m --callback-retry 10s",
		"schedule k --in 7m --callback-url https://a.example/h --callback-retry soon",
		"schedule k --in 7m --data @" + large,
		"list --state bogus", "list --from then", "occurrences k -n 0", "preview --in soon",
		"preview --every FREQ=DAILY --month 2026-13",
	} {
		cli(t, nil, "", append(strings.Fields(line), "--url", url)...).want(t, exitUsage)
		if strings.Contains(line, " k ") && !strings.HasPrefix(line, "occurrences") {
			cli(t, nil, "", append(strings.Fields(line), "--brokers", kafka)...).want(t, exitUsage)
		}
	}
}

// An ack without effect is decided like any other command, although the engine writes no event
// for it.
func TestAckWithoutEffect(t *testing.T) {
	kafka, _ := startDev(t)
	for _, key := range []string{"nobody", "pending"} {
		if key == "pending" {
			cli(t, nil, "", "schedule", key, "--in", "1h", "--brokers", kafka).want(t, exitOK)
		}
		cli(t, nil, "", "ack", key, "--brokers", kafka, "--decision-timeout", "10m").want(t, exitOK,
			"nothing was in flight")
	}
}
