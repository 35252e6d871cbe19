package cassandra

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocql/gocql"

	schema "github.com/waterclock/waterclock/schemas/cassandra"
)

// ErrSchema is wrapped by every refusal of a keyspace whose schema is not the one that this
// binary expects.
var ErrSchema = errors.New("schema")

// migration is one numbered file.
type migration struct {
	version    int
	name       string
	checksum   string // SHA-256 of the file
	statements []string
}

var migrationName = regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.cql$`)

// loadMigrations reads the files, which must be numbered 1, 2, 3 …
func loadMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.cql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []migration
	for i, name := range names {
		m, err := loadMigration(files, name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if m.version != i+1 {
			return nil, fmt.Errorf("%s: its number should be %04d", name, i+1)
		}
		all = append(all, m)
	}
	return all, nil
}

func loadMigration(files fs.FS, name string) (m migration, err error) {
	match := migrationName.FindStringSubmatch(name)
	if match == nil {
		return m, errors.New("want NNNN_name.cql")
	}
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return m, err
	}
	sum := sha256.Sum256(text)
	m.version, _ = strconv.Atoi(match[1])
	m.name, m.checksum, m.statements = match[2], hex.EncodeToString(sum[:]), statements(string(text))
	if len(m.statements) == 0 {
		return m, errors.New("no statement in it")
	}
	return m, nil
}

// statements splits a file at semicolons at the end of a line. It removes whole-line comments.
func statements(text string) (all []string) {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, " \t\r")
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		body, ends := strings.CutSuffix(line, ";")
		b.WriteString(body + "\n")
		if !ends {
			continue
		}
		if s := strings.TrimSpace(b.String()); s != "" {
			all = append(all, s)
		}
		b.Reset()
	}
	if s := strings.TrimSpace(b.String()); s != "" {
		all = append(all, s)
	}
	return all
}

// applied is a row of schema_migrations.
type applied struct {
	version        int
	name, checksum string
}

func readApplied(ctx context.Context, session *gocql.Session, keyspace string) (all []applied, err error) {
	it := session.Query(`SELECT version, name, checksum FROM ` + keyspace +
		`.schema_migrations`).WithContext(ctx).Iter()
	var a applied
	for it.Scan(&a.version, &a.name, &a.checksum) {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b applied) int { return cmp.Compare(a.version, b.version) })
	return all, it.Close()
}

// pending returns the migrations still to apply. It refuses a keyspace that has unknown
// migrations, or one of ours with other content.
func pending(keyspace string, known []migration, have []applied) ([]migration, error) {
	if n := len(have); n > 0 && have[n-1].version > len(known) {
		return nil,
			fmt.Errorf("%w: keyspace %s is at version %d (%s) and this binary knows up to %d: it was migrated by a "+
				"newer waterclock; run that one, or name another cassandra.keyspace",
				ErrSchema, keyspace, have[n-1].version, have[n-1].name, len(known))
	}
	done := map[int]bool{}
	for _, a := range have {
		if m := known[a.version-1]; m.checksum != a.checksum {
			return nil,
				fmt.Errorf("%w: keyspace %s has migration %04d_%s with checksum %.12s, and this binary's is %.12s: "+
					"a released migration was changed",
					ErrSchema, keyspace, a.version, a.name, a.checksum, m.checksum)
		}
		done[a.version] = true
	}
	return slices.DeleteFunc(slices.Clone(known), func(m migration) bool { return done[m.version] }), nil
}

// checkSchema refuses any schema but the expected one.
func checkSchema(ctx context.Context, session *gocql.Session, keyspace string) error {
	known, err := loadMigrations(schema.Migrations)
	if err != nil {
		return err
	}
	have, err := readApplied(ctx, session, keyspace)
	if missing(err) {
		have, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("read schema_migrations: %w", err)
	}
	todo, err := pending(keyspace, known, have)
	if err != nil {
		return err
	}
	if len(todo) > 0 {
		return fmt.Errorf("%w: keyspace %s is at version %d and this binary needs %d: run its migrations first",
			ErrSchema, keyspace, len(known)-len(todo), len(known))
	}
	return nil
}

// missing reports whether a statement named a table that does not exist.
func missing(err error) bool {
	var request gocql.RequestError
	return errors.As(err, &request) && request.Code() == gocql.ErrCodeInvalid &&
		strings.Contains(request.Message(), "does not exist")
}
