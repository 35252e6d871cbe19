package cassandra

import (
	"context"
	"strings"

	"github.com/gocql/gocql"
)

// oneCopyInMemory reports whether a crash of one node loses rows that it has acknowledged: there is one copy of each,
// and it is not on the disk by then. It is false if this account may not read the settings, or if the node does not
// have them: system_views came with Cassandra 4.0.
func oneCopyInMemory(ctx context.Context, s *gocql.Session, keyspace string) bool {
	copies := map[string]string{}
	err := s.Query(`SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?`, keyspace).
		WithContext(ctx).Scan(&copies)
	if err != nil || !isOneCopy(copies) {
		return false
	}
	var sync string
	err = s.Query(`SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'`).WithContext(ctx).Scan(&sync)
	return err == nil && strings.EqualFold(sync, "periodic")
}

// isOneCopy reads a keyspace's replication: its class, and a number for each data centre or for all.
func isOneCopy(replication map[string]string) bool {
	var copies []string
	for name, n := range replication {
		if name != "class" {
			copies = append(copies, n)
		}
	}
	return len(copies) == 1 && copies[0] == "1"
}
