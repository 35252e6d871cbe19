package analytics

import (
	"reflect"
	"strconv"
	"strings"
)

// Column is a column of the files.
type Column struct {
	Name string
	ID   int    // field id; never used for another column
	Type string // as DuckDB has it
}

// Columns are those of Row, in order.
func Columns() []Column { return columnsOf(reflect.TypeFor[Row]()) }

// SnapshotColumns are those of Standing, in order.
func SnapshotColumns() []Column { return columnsOf(reflect.TypeFor[Standing]()) }

func columnsOf(row reflect.Type) (all []Column) {
	for f := range row.Fields() {
		tag := f.Tag.Get("parquet")
		name, options, _ := strings.Cut(tag, ",")
		c := Column{Name: name, Type: typeOf(f.Type, options)}
		if _, rest, ok := strings.Cut(options, "id("); ok {
			number, _, _ := strings.Cut(rest, ")")
			c.ID, _ = strconv.Atoi(number)
		}
		all = append(all, c)
	}
	return all
}

func typeOf(t reflect.Type, options string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case strings.Contains(options, "timestamp"):
		return "TIMESTAMP WITH TIME ZONE"
	case t.Kind() == reflect.Int32:
		return "INTEGER"
	case t.Kind() == reflect.Int64:
		return "BIGINT"
	case t.Kind() == reflect.Map:
		return "MAP(VARCHAR, VARCHAR)"
	}
	return "VARCHAR"
}
