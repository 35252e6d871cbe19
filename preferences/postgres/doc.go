// Package postgres keeps preferences in PostgreSQL, for `waterclock serve`: all
// instances share them.
//
// # Promises
//
//   - New does not connect. The first call does, and migrates the schema. So an
//     instance starts while PostgreSQL is away, and needs nobody to start it anew.
//   - Get is one query, for however many users.
//   - Put is one transaction with the row of the outbox, and with the count of the tenant's users.
//   - Migrations of instances that start at once run one after the other: goose
//     holds an advisory lock of the session.
//   - Every call is bounded by Options.Within. An error wraps preferences.ErrAway,
//     unless the caller's context ended.
//
// The tables are drawn in schemas/postgres. They are made in the first schema of
// the search_path; one database may have them once.
package postgres
