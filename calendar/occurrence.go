package calendar

// Occurrence is one instant at which a trigger should fire.
type Occurrence struct {
	// At is the instant, in unix milliseconds.
	At int64
	// Local is the wall time that was scheduled. It is the identity of the
	// occurrence, so that a tz database update moves it and never doubles it.
	// Where a gap or a holiday moved the firing, clocks show another time at
	// At. Zero if Elapsed.
	Local Wall
	// Fold: the second pass of an overlap.
	Fold bool
	// Elapsed: the identity is the instant; there was no wall time.
	Elapsed bool
	// Note says to a person what happened to the wall time: "gap: shifted
	// 1h", "overlap: first pass". Usually empty.
	Note string
}

// ID names the occurrence within its trigger (docs/formats/due.md): the wall
// time, 2026-11-20T09:00:00, with +f1 on the second pass of an overlap; or
// the instant, 2026-11-20T14:00:00.000Z.
func (o Occurrence) ID() string {
	b := make([]byte, 0, 32)
	if o.Elapsed {
		b = Wall(o.At).append(b)
		if floorMod(o.At, 1000) == 0 {
			b = append(b, ".000"...)
		}
		return string(append(b, 'Z'))
	}
	b = o.Local.append(b)
	if o.Fold {
		b = append(b, "+f1"...)
	}
	return string(b)
}

// before orders occurrences of one rule by instant. Of wall times that fall
// on one instant the latest stands for all (docs/formats/due.md), and
// any wall time for an instant given as such.
func (o Occurrence) before(p Occurrence) bool {
	switch {
	case o.At != p.At:
		return o.At < p.At
	case o.Elapsed != p.Elapsed:
		return p.Elapsed
	}
	return o.Local > p.Local
}

// note words what resolving did to a wall time.
func (r Resolved) note() string {
	switch {
	case r.Shift != 0:
		return "gap: shifted " + DurationText(r.Shift)
	case r.Fold:
		return "overlap: second pass"
	case r.Twice:
		return "overlap: first pass"
	}
	return ""
}

// ResolveAt is the occurrence of a one-shot: a local date-time in a zone. A
// time that d skips is no_occurrences; of two passes a one-shot takes the
// first, unless d says second.
func ResolveAt(zs *Zones, wall, zone string, d DST) (Occurrence, error) {
	z, err := zs.Lookup(zone)
	if err != nil {
		return Occurrence{}, err
	}
	w, err := ParseWall(wall)
	if err != nil {
		return Occurrence{}, in("fire_at", err)
	}
	var buf [2]Resolved
	if z.resolve(w, d, &buf) == 0 {
		return Occurrence{}, fail(CodeNoOccurrences, "fire_at",
			"%s is skipped in %s: clocks jump over it, and dst.gap is skip", w, zone)
	}
	return Occurrence{At: buf[0].At, Local: w, Fold: buf[0].Fold, Note: buf[0].note()}, nil
}
