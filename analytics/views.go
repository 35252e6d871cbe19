package analytics

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed views.sql
var viewsSQL string

// Views is SQL that makes the views in DuckDB, for the export in a directory (an absolute
// path).
func Views(dir string) string {
	return strings.ReplaceAll(viewsSQL, "{dir}", strings.ReplaceAll(globbed(dir), "'", "''"))
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
