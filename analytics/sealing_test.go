package analytics

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// noRoomDisk makes files into which nothing can be written.
type noRoomDisk struct{ quickDisk }

type noRoomFile struct{ file }

func (noRoomFile) Write([]byte) (int, error) { return 0, errDied }

func (d noRoomDisk) Create(name string) (file, error) {
	f, err := d.quickDisk.Create(name)
	return noRoomFile{f}, err
}

// TestManyBatches exports a file of many batches, each written while the next one is decoded, and of more than one
// row group. Before that the same exporter has had no room for the first group, and a context that ended beside a
// write.
func TestManyBatches(t *testing.T) {
	l, dir := &ledger{values: lives(0, rowsPerGroup+5*batchRows+7)}, t.TempDir()
	end := int64(len(l.values))
	e := New(Options{Topic: topic, Dir: dir, Users: Users{Plain: true}})
	stop := int64(-1)
	e.source = func(context.Context) (*source, error) {
		return &source{id: "t", starts: []int64{0}, ends: []int64{end}, read: l.read}, nil
	}
	e.disk = noRoomDisk{}
	if r, err := e.Export(t.Context()); !errors.Is(err, errDied) {
		t.Fatalf("without room: %+v, %v", r, err)
	}
	e.disk = quickDisk{}
	ctx, cancel := context.WithCancel(t.Context())
	e.source = func(context.Context) (*source, error) {
		read := func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
			return l.read(ctx, p, first, end, func(r *kgo.Record, at int64) error {
				if stop++; stop == 3*batchRows {
					cancel()
				}
				return visit(r, at)
			}, step)
		}
		return &source{id: "t", starts: []int64{0}, ends: []int64{end}, read: read}, nil
	}
	if r, err := e.Export(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("with a context that ends: %+v, %v", r, err)
	}
	if r, err := e.Export(t.Context()); err != nil || r.Events != end {
		t.Fatalf("%+v, %v, want %d events", r, err, end)
	}
	_, all, _ := read(t, dir)
	if int64(len(all[0])) != end {
		t.Fatalf("%d rows, want %d", len(all[0]), end)
	}
	d := &decoder{hide: newHider(Users{Plain: true})}
	for i, got := range all[0] {
		var want Row
		d.row(&kgo.Record{Offset: int64(i), Value: l.values[i], Timestamp: time.UnixMilli(1_790_000_000_000)}, &want)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("row %d is\n%+v, want\n%+v", i, got, want)
		}
	}
}
