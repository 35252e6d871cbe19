// Package postgres holds the numbered migrations of the preference tables.
package postgres

import "embed"

// Migrations has the files NNNNN_name.sql; the number is the schema's version.
//
//go:embed *.sql
var Migrations embed.FS
