package slo

import (
	"context"
	"slices"
	"time"

	"github.com/waterclock/waterclock/analytics"
)

// planRow has what Plan needs, of files that have nothing of the window.
type planRow struct {
	Type    string `parquet:"type"`
	Trigger string `parquet:"trigger"`
	Rule    string `parquet:"rule"`
}

// Read makes the report of an export. It ends with the error of ctx once that has one.
func Read(ctx context.Context, from *analytics.Reader, o Options) (Report, error) {
	f := New(o)
	ends := map[int32]int64{}
	for {
		if err := f.pass(ctx, from, ends); err != nil {
			return Report{}, err
		}
		if !f.Refine() {
			break
		}
	}
	r := f.Report()
	r.Manifest, r.Behind, r.Gaps = from.Manifest(), f.arrived.behind(f.until*1000), f.gaps(from)
	for p := range from.Partitions() {
		if !from.HasTail(p) {
			r.NoTail = append(r.NoTail, p)
		}
		if from.Start(p) > 0 && f.oldest > f.from*1000 {
			r.Begins = utc(time.UnixMicro(f.oldest))
		}
	}
	return r, nil
}

// gaps are those of which events may be of the window: what stands behind them is.
func (f *Fold) gaps(from *analytics.Reader) (all []analytics.Gap) {
	for _, g := range from.Gaps() {
		files := from.Files(g.Partition)
		next := slices.IndexFunc(files, func(file analytics.File) bool { return file.First >= g.To && file.MinUS != 0 })
		if next < 0 || files[next].MinUS >= f.from*1000 {
			all = append(all, g)
		}
	}
	return all
}

// pass gives the fold all rows. Nothing happens before it is due, so a file that ends before
// the window has no fire of it, and what it says of priorities is all that counts. The first
// pass notes where each partition ends; later ones end there too.
func (f *Fold) pass(ctx context.Context, from *analytics.Reader, ends map[int32]int64) error {
	for p := range from.Partitions() {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.Partition()
		old := map[int64]bool{} // by first offset: an exporter may seal more between the two
		before := func(file *analytics.File) bool {
			old[file.First] = file.MaxUS < f.from*1000
			if old[file.First] && !f.refines {
				f.since(file.MinUS)
				f.arrived.add(p, file.MaxUS, file.Rows)
			}
			return old[file.First]
		}
		err := analytics.Read(from, p, analytics.Selection{Files: before, NoTail: true}, func(rows []planRow) error {
			for i := range rows {
				f.Plan(rows[i].Type, rows[i].Trigger, rows[i].Rule)
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		within := func(file *analytics.File) bool { return !old[file.First] }
		err = analytics.Read(from, p, analytics.Selection{Files: within}, func(rows []Row) error {
			for i := range rows {
				if r := &rows[i]; !f.refines {
					ends[p] = r.Offset
					f.arrived.add(p, r.EventUS, 1)
				} else if r.Offset > ends[p] {
					break
				}
				f.Add(&rows[i])
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}
