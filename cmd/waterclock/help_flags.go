package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waterclock/waterclock/internal/config"
)

// describedFlags are the settings that the help of dev and serve describes. Of the others it has the names.
var describedFlags = []string{
	"brokers", "data-dir", "listen", "admin-listen", "kafka-listen", "public-url", "roles", "group", "standby",
	"topics-partitions", "topics-prefix", "topics-manage", "cassandra-hosts", "auth-keys-file", "channels-auto-create",
	"webhook-allow", "memory-limit", "log-level", "log-format",
}

// briefHelp makes the help of a command that has a flag for every setting fit on a page.
func briefHelp(cmd *cobra.Command) {
	cobra.AddTemplateFunc("briefFlags", briefFlags)
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(),
		"{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}", "{{briefFlags .LocalFlags}}", 1))
}

func briefFlags(all *pflag.FlagSet) string {
	setting := map[string]bool{}
	for _, s := range config.Settings() {
		setting[config.FlagName(s.Key)] = true
	}
	described := pflag.NewFlagSet("", pflag.ContinueOnError)
	var names []string
	all.VisitAll(func(f *pflag.Flag) {
		switch {
		case !setting[f.Name] || slices.Contains(describedFlags, f.Name):
			described.AddFlag(f)
		case !f.Hidden:
			names = append(names, "--"+f.Name)
		}
	})
	return described.FlagUsages() + `
All other settings are flags, too ("waterclock config show --docs" says what each is):
` + wrapped(names, 110)
}

// wrapped puts words into lines of at most a width.
func wrapped(words []string, width int) string {
	var lines []string
	line := " "
	for _, w := range words {
		if len(line)+1+len(w) > width {
			lines, line = append(lines, line), " "
		}
		line += " " + w
	}
	return strings.Join(append(lines, line), "\n")
}
