package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestMain lets this binary act as `waterclock`: sim starts itself once per run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
	}
	os.Exit(m.Run())
}

// TestSim runs a few small simulations and checks the summary.
func TestSim(t *testing.T) {
	small := []string{"sim", "--days", "0.01", "--triggers", "10", "--partitions", "1", "--faults", "kill,lost-answers"}
	r := cli(t, nil, "", append(small[:len(small):len(small)], "--seed", "3", "--seeds", "3", "-o", "json")...)
	r.want(t, exitOK)
	var s simSummary
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		t.Fatalf("%v: %s", err, r.out)
	}
	if s.Seed != 3 || s.Seeds != 3 || s.Failed != 0 || s.Fired == 0 || s.Faults["kill"] == 0 || len(s.Lives) != 0 {
		t.Errorf("%+v", s)
	}
	cli(t, nil, "", append(small, "--story")...).want(t, exitOK, "waterclock sim --seed 1 --days 0.01 --partitions 1",
		": kill", "1 seed, 0 failed")
}

func TestSimFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--faults boredom", "boredom"},
		{"--days 0", "days"},
		{"--days -1", "days"},
		{"--partitions 1000", "partitions"},
		{"--seeds 0", "--seeds"},
		{"--triggers 0", "--triggers"},
		{"--stall-timeout 0", "--stall-timeout"},
	} {
		cli(t, nil, "", append([]string{"sim"}, strings.Fields(c.args)...)...).want(t, exitUsage, c.want)
	}
	cli(t, nil, "", "sim", "--faults", "list").want(t, exitOK, "truncated-log")
}

// TestTaleOfALife: the story has the command that repeats the run, what happened, what failed,
// how often, and the smaller run.
func TestTaleOfALife(t *testing.T) {
	l := &simLife{
		Command: "waterclock sim --seed 1", Story: []string{"then  a: kill"},
		Violations: []string{"it broke\n  and how"},
		Repeated:   10, Failed: 3,
		Smaller: &simLife{Command: "waterclock sim --seed 1 --faults kill"},
	}
	want := "waterclock sim --seed 1|  then  a: kill|  it broke|    and how|  it fails 3 times of 10|A smaller " +
		"life that fails:|waterclock sim --seed 1 --faults kill"
	if got := strings.Join(l.tale(), "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
