package calendar

import "strings"

// PreviewRow is one line of a preview for people: an occurrence, or a wall
// time that DST leaves out, which has neither offset nor instant.
type PreviewRow struct {
	Local  string // 2026-03-08T03:30:00
	Offset string // -04:00
	UTC    string // 2026-03-08T07:30:00Z
	Note   string
}

// Words says the rule in plain words, "" for what is no rule.
func (r *PreviewResponse) Words() string {
	if r.rule == nil {
		return ""
	}
	return r.rule.Describe()
}

// Rows are the occurrences and, in their places among them, the wall times
// that dst.gap "skip" leaves out.
func (r *PreviewResponse) Rows() ([]PreviewRow, error) {
	var out []Occurrence
	if r.rule != nil {
		var err error
		if out, err = r.rule.LeftOut(r.after, r.until, PreviewMaxN); err != nil {
			return nil, err
		}
	}
	rows := make([]PreviewRow, 0, len(r.Occurrences)+len(out))
	for i, o := range r.Occurrences {
		for len(out) > 0 && out[0].At <= r.at[i] {
			rows, out = append(rows, PreviewRow{Local: out[0].Local.String(), Note: out[0].Note}), out[1:]
		}
		local, offset := splitOffset(o.Local)
		rows = append(rows, PreviewRow{local, offset, o.At, o.Note})
	}
	for _, o := range out {
		rows = append(rows, PreviewRow{Local: o.Local.String(), Note: o.Note})
	}
	return rows, nil
}

// splitOffset takes RFC 3339 apart.
func splitOffset(s string) (local, offset string) {
	at := strings.LastIndexAny(s, "Z+-")
	if s[at] == 'Z' {
		return s[:at], "+00:00"
	}
	return s[:at], s[at:]
}

// LeftOut lists the wall times at which r would fire in after < t ≤ until, had
// clocks not jumped over them: under dst.gap "skip" they have no occurrence.
// At is the instant of the jump, and Note says from where to where it goes.
// Of the dates of include it knows nothing: they are resolved when compiled.
func (r *Rule) LeftOut(after, until int64, most int) (list []Occurrence, err error) {
	if r.kind != onWalls || r.dst.Gap != GapSkip {
		return nil, nil
	}
	until = min(until, maxInstant)
	w, fresh := int64(0), false // the first candidate not judged yet, in seconds
	for g, ok := r.zone.nextGap(max(after, r.floor), until); ok; g, ok = r.zone.nextGap(g.at, until) {
		from := ceilDiv(max(int64(g.from)-r.holidays.ahead(), int64(r.startWall))-r.subMs, 1000)
		for {
			if !fresh || w < from {
				var found bool
				if w, found, err = r.walls.next(from); err != nil || !found {
					return list, err
				}
				fresh = true
			}
			wall := Wall(w*1000 + r.subMs)
			if wall > r.lastWall || len(list) == most {
				return list, nil
			}
			if int64(wall) >= int64(g.to)+r.holidays.behind() {
				break // a later gap may want it
			}
			from = w + 1
			if o, gone := r.leftOut(wall, g); gone {
				list = append(list, o)
			}
		}
	}
	return list, nil
}

// leftOut tells whether a candidate would have fired within a gap.
func (r *Rule) leftOut(wall Wall, g gap) (Occurrence, bool) {
	to, fires := r.holidays.apply(wall.Date())
	if !fires || r.exclude.day(wall.Date()) {
		return Occurrence{}, false
	}
	moved := wall + Wall(to-wall.Date())*msPerDay
	if moved < g.from || moved >= g.to {
		return Occurrence{}, false
	}
	at := r.zone.ResolveFirst(wall)
	if at < r.startAt || at > r.untilAt || r.exclude.has(at, wall) {
		return Occurrence{}, false
	}
	return Occurrence{At: g.at, Local: moved, Note: g.note()}, true
}

// gap is a stretch of wall times that clocks jump over: from ≤ w < to.
type gap struct {
	at       int64 // the instant of the jump, unix ms
	from, to Wall
}

func (g gap) note() string {
	from, to := g.from.String(), g.to.String()
	if g.from.Date() == g.to.Date() {
		const day = len("2026-03-08T")
		from, to = from[day:], to[day:]
	}
	return "gap: skipped, clocks jump from " + strings.TrimSuffix(from, ":00") + " to " + strings.TrimSuffix(to, ":00")
}

// nextGap is the first gap after an instant, and not after another.
func (z *Zone) nextGap(after, until int64) (g gap, ok bool) {
	for s := z.span(floorDiv(after, 1000)); s.hi < forever && s.hi*1000 <= until; {
		next := z.span(s.hi)
		if next.off > s.off {
			return gap{at: s.hi * 1000, from: Wall((s.hi + s.off) * 1000), to: Wall((s.hi + next.off) * 1000)}, true
		}
		s = next
	}
	return gap{}, false
}
