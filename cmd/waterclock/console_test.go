package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestConsoleNamesCommandsThatExist: each line that a page of the console shows for the command
// line is a command, and not the name of a group of commands.
func TestConsoleNamesCommandsThatExist(t *testing.T) {
	pages, err := filepath.Glob("../../gateway/console/assets/pages/*.js")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	root, n := newRoot(newApp(stdio{})), 0
	shown := regexp.MustCompile("['`]waterclock ([a-z][a-z -]*)")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range shown.FindAllStringSubmatch(string(text), -1) {
			n++
			words := strings.Fields(line[1])
			cmd, rest, err := root.Find(words)
			if err != nil || !cmd.Runnable() || len(cmd.Commands()) > 0 {
				t.Errorf("%s shows `waterclock %s`, which is no command (%v, %v)", page, line[1], rest, err)
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d lines were found", n)
	}
}
