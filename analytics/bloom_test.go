package analytics

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// Files of events have bloom filters of the trigger and of the user, snapshots of the trigger. No
// other column has one. A filter knows each value of its file, and hardly any other: so who asks for
// one trigger need not read most files.
func TestBloomFilters(t *testing.T) {
	l, dir := newLedger(150), t.TempDir()
	e := New(Options{Topic: topic, Dir: dir, Span: 32, Users: Users{Plain: true}})
	e.source, e.disk = l.source, quickDisk{}
	if _, err := e.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, all, _ := read(t, dir)
	triggers := map[string]bool{}
	for _, rows := range all {
		for i := range rows {
			triggers[rows[i].Trigger] = true
		}
	}
	if len(triggers) < 100 {
		t.Fatalf("%d triggers are too few to tell", len(triggers))
	}
	seen, known, unknown := map[string]int{}, 0, 0
	for name := range files(t, dir) {
		if !strings.HasSuffix(name, ".parquet") {
			continue
		}
		kind, _, _ := strings.Cut(filepath.ToSlash(name), "/")
		seen[kind]++
		want := []string{"trigger", "user_id"}
		if kind == snapshotDir {
			want = want[:1]
		}
		for _, group := range openWithFilters(t, filepath.Join(dir, name)).RowGroups() {
			filters := map[string]parquet.BloomFilter{}
			var have []string
			for i, chunk := range group.ColumnChunks() {
				if filter := chunk.BloomFilter(); filter != nil {
					column := strings.Join(group.Schema().Columns()[i], ".")
					have, filters[column] = append(have, column), filter
				}
			}
			if slices.Sort(have); !slices.Equal(have, want) {
				t.Fatalf("%s has bloom filters of %v, want %v", name, have, want)
			}
			has := func(column, value string) bool {
				ok, err := filters[column].Check(parquet.ValueOf(value))
				if err != nil {
					t.Fatal(err)
				}
				return ok
			}
			least, most := boundsOf(t, group, "trigger")
			for trigger := range triggersOf(t, group) {
				known++
				if trigger < least || trigger[:min(len(trigger), max(1, len(most)))] > most {
					t.Errorf("pages of %s have %q to %q, and %s", name, least, most, trigger)
				}
				if !has("trigger", trigger) {
					t.Errorf("the filter of %s does not know its own %s", name, trigger)
				}
			}
			for i := range 1000 {
				if has("trigger", fmt.Sprint("nobody's-", i)) {
					unknown++
				}
			}
			if kind != snapshotDir && (!has("user_id", "ada") || has("user_id", "grace")) {
				t.Errorf("the filter of users of %s is wrong", name)
			}
		}
	}
	groups := seen[eventsDir] + seen[tailDir] + seen[snapshotDir]
	if seen[eventsDir] == 0 || seen[tailDir] == 0 || seen[snapshotDir] == 0 || known < len(triggers) {
		t.Errorf("files %v, %d known values", seen, known)
	}
	if share := float64(unknown) / float64(1000*groups); share > 0.03 {
		t.Errorf("filters of 10 bits a value take %.1f %% of other values for theirs, want about 1", share*100)
	}
}

func openWithFilters(t *testing.T, name string) *parquet.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// boundsOf are what the column index says of a column's pages. Readers pass over a page by that. It may cut texts.
func boundsOf(t *testing.T, group parquet.RowGroup, column string) (least, most string) {
	t.Helper()
	for i, chunk := range group.ColumnChunks() {
		if strings.Join(group.Schema().Columns()[i], ".") != column {
			continue
		}
		index, err := chunk.ColumnIndex()
		if err != nil {
			t.Fatal(err)
		}
		for page := range index.NumPages() {
			if index.NullPage(page) {
				continue
			}
			from, to := string(index.MinValue(page).ByteArray()), string(index.MaxValue(page).ByteArray())
			if least == "" || from < least {
				least = from
			}
			most = max(most, to)
		}
	}
	return least, most
}

// triggersOf reads the column of triggers.
func triggersOf(t *testing.T, group parquet.RowGroup) map[string]bool {
	t.Helper()
	type row struct {
		Trigger string `parquet:"trigger"`
	}
	rows := make([]row, group.NumRows())
	r := parquet.NewGenericRowGroupReader[row](group)
	defer r.Close()
	if n, err := r.Read(rows); int64(n) != group.NumRows() {
		t.Fatalf("%d of %d rows: %v", n, group.NumRows(), err)
	}
	all := map[string]bool{}
	for _, one := range rows {
		if one.Trigger != "" {
			all[one.Trigger] = true
		}
	}
	return all
}
