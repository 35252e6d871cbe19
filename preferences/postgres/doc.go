// Package postgres keeps preferences in PostgreSQL, for `waterclock serve`. All instances share
// them.
//
// # Promises
//
//   - New does not connect. The first call connects, and migrates the schema. So an
//     instance can start while PostgreSQL is down, and needs no restart afterwards.
//   - Get is one query for any number of users.
//   - Put is one transaction with the row of the outbox, and with the count of the tenant's users.
//   - Instances that start at once run their migrations one after the other: goose
//     holds an advisory lock of the session.
//   - Every call is bounded by Options.Within. An error wraps preferences.ErrAway,
//     unless the caller's context ended. A migration may take longer: calls fail until it is done.
//
// schemas/postgres has the tables. They are created in the first schema of the search_path, so a
// schema can hold them once.
package postgres
