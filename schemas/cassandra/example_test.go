package cassandra_test

import (
	"fmt"
	"io/fs"

	"github.com/waterclock/waterclock/schemas/cassandra"
)

// Migrations are applied in the order of their names.
func Example_migrations() {
	names, err := fs.Glob(cassandra.Migrations, "*.cql")
	fmt.Println(names[0], err)
	// Output: 0001_history.cql <nil>
}
