package main

import (
	"context"

	"github.com/waterclock/waterclock/preferences/postgres"
)

// examinePreferences connects to PostgreSQL if postgres.url is set. It writes nothing: the first
// start of an instance creates the tables.
func (d *doctor) examinePreferences(ctx context.Context) {
	if d.c.Postgres.URL == "" {
		return
	}
	s, err := postgres.New(postgres.Options{URL: d.c.Postgres.URL, Within: checkWithin})
	if err != nil {
		d.fail("preferences", "correct postgres.url", "%v", err)
		return
	}
	defer s.Close()
	r, err := s.Probe(ctx)
	switch {
	case err != nil:
		d.fail("preferences", "check postgres.url, and that PostgreSQL runs there and lets this user in",
			"PostgreSQL does not answer: %v", cause(err))
	case r.Schema < r.Newest && !r.MayMigrate:
		d.fail("preferences", "grant its user CREATE on the schema, or run the first start as a user that has it",
			"PostgreSQL %s lacks tables, and this user may not create them", r.Server)
	case r.Schema < r.Newest:
		d.ok("preferences", "PostgreSQL %s answers; the next use of the API creates the tables", r.Server)
	default:
		d.ok("preferences", "PostgreSQL %s answers, with schema %d", r.Server, r.Schema)
	}
}
