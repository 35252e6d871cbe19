package analytics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

// sparse is a row with a column of each type that files have. asRead has the same columns, and tells null from zero.
type sparse struct {
	N     int64             `parquet:"n"`
	Text  string            `parquet:"text,optional,dict"`
	Plain string            `parquet:"plain,optional"`
	At    int64             `parquet:"at,optional,delta,timestamp(millisecond)"`
	Count int32             `parquet:"count,optional,dict"`
	Step  *int32            `parquet:"step,optional,dict"`
	Tags  map[string]string `parquet:"tags,optional"`
}

type asRead struct {
	N     int64              `parquet:"n"`
	Text  *string            `parquet:"text"`
	Plain *string            `parquet:"plain"`
	At    *int64             `parquet:"at"`
	Count *int32             `parquet:"count"`
	Step  *int32             `parquet:"step"`
	Tags  *map[string]string `parquet:"tags"`
}

// nulls has x for each column that is not null.
func (r *asRead) nulls() string { return present(r.Text, r.Plain, r.At, r.Count, r.Step, r.Tags) }

func (r *sparse) nulls() string { return present(r.Text, r.Plain, r.At, r.Count, r.Step, r.Tags) }

func present(columns ...any) string {
	var b strings.Builder
	for _, c := range columns {
		if reflect.ValueOf(c).IsZero() {
			b.WriteByte('.')
		} else {
			b.WriteByte('x')
		}
	}
	return b.String()
}

// TestNulls writes rows in which values, or a few in a row, stand far apart. What is null must be read as null.
func TestNulls(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		checkNulls(t, sparseRows(r, 1+r.IntN(300)))
	}
	// The first row group ends 2 rows into a piece, and the value stands behind one row of the next group.
	rows := make([]sparse, rowsPerGroup+100)
	for i := 31; i < 62; i++ {
		rows[i].Text = "cut behind"
	}
	rows[rowsPerGroup+1].Text = "x"
	checkNulls(t, rows)
}

func sparseRows(r *rand.Rand, n int) []sparse {
	rows := make([]sparse, n)
	apart := 1 + r.IntN(100)
	fill := func(set func(*sparse)) {
		for i := r.IntN(apart); i < len(rows); i += 1 + r.IntN(apart) {
			for end := i + 1 + r.IntN(35); i < min(end, len(rows)); i++ {
				set(&rows[i])
			}
		}
	}
	zero := int32(0)
	fill(func(s *sparse) { s.Text = fmt.Sprint("text", r.IntN(3)) })
	fill(func(s *sparse) { s.Plain = fmt.Sprint("plain", r.IntN(3)) })
	fill(func(s *sparse) { s.At = 1_790_000_000_000 })
	fill(func(s *sparse) { s.Count = 7 })
	fill(func(s *sparse) { s.Step = &zero })
	fill(func(s *sparse) { s.Tags = map[string]string{"a": "b"} })
	return rows
}

func checkNulls(t *testing.T, rows []sparse) {
	t.Helper()
	var file bytes.Buffer
	buf := bufio.NewWriter(&file)
	o := output[sparse]{pieces: newPieces[sparse](), writer: newWriter[sparse](buf, nil)}
	if err := errors.Join(o.write(rows), o.writer.Close(), buf.Flush()); err != nil {
		t.Fatal(err)
	}
	read, err := parquet.Read[asRead](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil || len(read) != len(rows) {
		t.Fatalf("%d rows of %d, %v", len(read), len(rows), err)
	}
	for i := range rows {
		if got, want := read[i].nulls(), rows[i].nulls(); got != want {
			t.Fatalf("row %d of %d: %s, want %s", i, len(rows), got, want)
		}
	}
}

// TestNullables: each column of the files that may be null is a pointer, or one that pieces look at.
func TestNullables(t *testing.T) {
	for _, row := range []reflect.Type{reflect.TypeFor[Row](), reflect.TypeFor[Standing]()} {
		pointers, optional := 0, 0
		for f := range row.Fields() {
			if strings.Contains(f.Tag.Get("parquet"), ",optional") {
				optional++
				if f.Type.Kind() == reflect.Pointer {
					pointers++
				}
			}
		}
		if n := len(nullables(row)); n == 0 || n != optional-pointers {
			t.Errorf("%s has %d, want %d", row, n, optional-pointers)
		}
	}
}
