// Package cassandra holds the numbered CQL migrations of the history keyspace.
package cassandra

import "embed"

// Migrations has the files NNNN_name.cql; the number is the schema's version.
//
//go:embed *.cql
var Migrations embed.FS
