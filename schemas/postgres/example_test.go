package postgres_test

import (
	"fmt"
	"io/fs"

	"github.com/waterclock/waterclock/schemas/postgres"
)

// Migrations are applied in the order of their names.
func Example_migrations() {
	names, err := fs.Glob(postgres.Migrations, "*.sql")
	fmt.Println(names[0], err)
	// Output: 00001_preferences.sql <nil>
}
