package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	cli(t, nil, "", "man", dir).want(t, exitOK)
	for _, page := range []string{
		"waterclock.1", "waterclock-schedule.1", "waterclock-calendar-put.1",
		"waterclock-completion-bash.1",
	} {
		b, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(string(b), ".TH") || !strings.Contains(string(b), "--brokers") {
			t.Errorf("%s: %v, %d bytes", page, err, len(b))
		}
	}
	cli(t, nil, "", "help").want(t, exitOK, "\n  man ")
}

// Shells ask the program itself for completions.
func TestCompletion(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		want []string
	}{
		{"verbs", []string{""}, []string{"schedule\tCreate or replace a trigger", "doctor\t", "apply\t"}},
		{"beginning of a verb", []string{"calen"}, []string{"calendar\t"}},
		{"verbs below", []string{"tzdata", ""}, []string{"status\t", "apply\t"}},
		{"arguments", []string{"tzdata", "apply", ""}, []string{"embedded"}},
		{"flags", []string{"preview", "--mo"}, []string{"--month\t"}},
		{"values of a flag", []string{"get", "k", "-o", ""}, []string{"table", "json", "ndjson"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, "", append([]string{"__complete"}, row.args...)...).want(t, exitOK, row.want...)
		})
	}
}

// Every verb has a description, and no name occurs twice.
func TestEveryVerbIsDescribed(t *testing.T) {
	seen := map[string]bool{}
	for _, cmd := range newRoot(newApp(stdio{})).Commands() {
		if cmd.Short == "" || seen[cmd.Name()] {
			t.Errorf("%s: short text %q, seen before: %v", cmd.Name(), cmd.Short, seen[cmd.Name()])
		}
		seen[cmd.Name()] = true
	}
}
