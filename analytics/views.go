package analytics

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed views.sql
var viewsSQL string

// standing are the columns of a trigger, of what its events and its snapshot say. It stands for
// {standing} in the SQL.
const standing = `tenant, trigger, arg_max(state, log_offset) AS state, arg_max(type, log_offset) AS last_event,
  arg_max_null(revision, log_offset) AS revision, arg_max(seq, log_offset) AS seq,
  arg_max(scheduled_at, log_offset) AS scheduled_at,
  arg_max_null(next_at, log_offset) FILTER (says_next) AS next_at,
  arg_max_null(channel, log_offset) FILTER (says_plan) AS channel,
  arg_max_null(user_id, log_offset) FILTER (says_plan) AS user_id,
  arg_max_null(correlation_id, log_offset) FILTER (says_plan) AS correlation_id,
  arg_max_null(tags, log_offset) FILTER (says_plan) AS tags, arg_max_null(rule, log_offset) FILTER (says_plan) AS rule,
  max(created_at) AS created_at, max(event_us) AS updated_at`

// Views is SQL that makes the views in DuckDB, for the export in a directory (an absolute
// path).
func Views(dir string) string {
	return strings.NewReplacer("{dir}", strings.ReplaceAll(globbed(dir), "'", "''"), "{standing}", standing).
		Replace(viewsSQL)
}

// globbed is a path in which no character stands for others.
func globbed(dir string) string {
	return regexp.MustCompile(`[*?\[\]]`).ReplaceAllString(dir, "[$0]")
}

var viewName = regexp.MustCompile(`(?m)^CREATE OR REPLACE (?:VIEW|MACRO) (\w+)`)

// ViewNames are the names of the views and macros.
func ViewNames() (names []string) {
	for _, m := range viewName.FindAllStringSubmatch(viewsSQL, -1) {
		names = append(names, m[1])
	}
	return names
}
