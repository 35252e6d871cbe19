package check

import (
	"encoding/json"
	"slices"
	"strings"
)

// calendarPut is a record of topic control that puts a calendar, or removes it.
type calendarPut struct {
	offset, at int64
	name       string         // tenant/name: a tenant's own
	dates      map[int64]bool // by day; nil: it was removed
}

// settingsTurn is a turn of a partition after which it has planned everything by newer settings.
type settingsTurn struct {
	after int64 // offset of the last event of this turn and of those before it; -1: none
	next  int64 // settings below this offset are in force
	at    int64 // clock of the turn
}

// readPuts reads the calendars of topic control. If records are missing, calendars are not judged.
func (v *verifier) readPuts() {
	for i, f := range v.h.files {
		if f.kind != kindControl {
			continue
		}
		v.putsKnown = f.Start == 0 && len(v.fates[i].holes) == 0
		for c := newCursor(f, v.fates[i]); c.next(); {
			name, ok := strings.CutPrefix(string(c.rec.Key), "calendar/")
			if !ok {
				continue
			}
			if dates, ok := calendarDates(c.rec.Value); ok {
				v.puts = append(v.puts, calendarPut{c.rec.Offset, c.rec.Timestamp, name, dates})
			}
		}
	}
}

func calendarDates(value []byte) (dates map[int64]bool, ok bool) {
	if value == nil {
		return nil, true
	}
	var c struct {
		Dates []string `json:"dates"`
	}
	if json.Unmarshal(value, &c) != nil {
		return nil, false
	}
	dates = map[int64]bool{}
	for _, text := range c.Dates {
		w, date, ok := parseWall(text)
		if !ok || !date {
			return nil, false // the engine refuses all of it
		}
		dates[w.day()] = true
	}
	return dates, true
}

// settingsAt returns which settings were in force when an event was decided: for certain those below offset from, and
// perhaps those below offset to. turn is the clock of the turn that planned by the former.
func (v *verifier) settingsAt(part *partition, e *event) (from, to, turn int64) {
	for _, s := range part.settings {
		if s.after >= e.at.offset {
			break
		}
		from, turn = s.next, s.at
	}
	to = from
	for i := range v.puts {
		if p := &v.puts[i]; p.at <= e.append+v.o.Epsilon.Milliseconds() {
			to = max(to, p.offset+1)
		}
	}
	return from, to, turn
}

// tenant returns the tenant of the trigger's key.
func (t *life) tenant() string {
	if tenant, _, ok := strings.Cut(t.key, "/"); ok {
		return tenant
	}
	return "default"
}

// names reports whether the series names the calendar of a record.
func (t *life) names(p *calendarPut) bool {
	tenant, name, own := strings.Cut(p.name, "/")
	if !own {
		return slices.Contains(t.when.calendars, p.name)
	}
	return tenant == t.tenant() && slices.Contains(t.when.calendars, name)
}

// changes returns the offsets behind the records of [from, to) that change a calendar of the series.
func (t *life) changes(from, to int64) (out []int64) {
	if t.when.kind != whenSeries || t.when.calendars == nil {
		return nil
	}
	for i := range t.v.puts {
		if p := &t.v.puts[i]; p.offset >= from && p.offset < to && t.names(p) {
			out = append(out, p.offset+1)
		}
	}
	return out
}

// holidaysBelow returns the calendars of the series by the settings below an offset. A tenant's own calendar hides that
// of all tenants.
func (t *life) holidaysBelow(offset int64) *holidays {
	if t.when.calendars == nil {
		return nil
	}
	key := holidaysKey{t.tenant(), strings.Join(t.when.calendars, " "), t.when.on, 0}
	latest := map[string]map[int64]bool{}
	for i := range t.v.puts {
		if p := &t.v.puts[i]; p.offset < offset && t.names(p) {
			latest[p.name], key.offset = p.dates, p.offset+1
		}
	}
	if h := t.w.holidays[key]; h != nil {
		return h
	}
	listed := map[int64]bool{}
	for _, name := range t.when.calendars {
		dates := latest[t.tenant()+"/"+name]
		if dates == nil {
			dates = latest[name]
		}
		for day := range dates {
			listed[day] = true
		}
	}
	if t.w.holidays == nil || len(t.w.holidays) > 64 {
		t.w.holidays = map[holidaysKey]*holidays{}
	}
	h := newHolidays(t.when.on, listed)
	t.w.holidays[key] = h
	return h
}

// holidaysKey has what a series' holidays depend on.
type holidaysKey struct {
	tenant, names, on string
	offset            int64
}

// readSettings moves the model to the settings that were in force when an event was decided. By then the engine has
// planned the trigger anew. If that has moved the plan, an event of its own says so.
func (t *life) readSettings(from, to, turn int64) {
	was := t.settings
	t.settings, t.newer = max(was, from), max(was, to)
	unsure := t.unsure
	t.unsure = len(t.changes(t.settings, t.newer)) > 0
	if len(t.changes(was, t.settings)) == 0 {
		return
	}
	if !t.plan.has || t.plan.open || t.drift || !t.known || finished(t.status) {
		return
	}
	plans := t.plansAnew(t.settings, turn)
	if len(plans) == 0 {
		t.plan = plan{has: true, open: true}
		return
	}
	for i := range plans {
		if plans[i].at(t.plan.next.name, t.plan.next.at) {
			t.goOn(&plans[i], t.settings, turn)
			if last := &plans[len(plans)-2]; len(t.maybe) > 0 && last.has && !last.at("", t.plan.next.at) {
				t.perhaps = last // if a missed run has decided what may be of it
			}
			return
		}
	}
	if p, ok := t.notLater(t.settings, t.plan.next.name, t.plan.next.at, plans); ok {
		t.goOn(&p, t.settings, turn)
		if unsure {
			t.perhaps = &plans[0]
		}
		return
	}
	if plans[0].has && !unsure {
		t.fail(Recurrence, nil,
			"calendars were changed below offset %d of control: next is %s, and no event tells of it",
			t.settings, plans[0].says())
	}
	t.goOn(&plans[0], t.settings, turn)
}

// at reports whether an occurrence is the next one of a plan.
func (p *plan) at(name string, at int64) bool {
	return p.has && p.next.at == at && (name == "" || p.next.name == name)
}

// says spells the next occurrence of a plan.
func (p *plan) says() string {
	if !p.has {
		return "nothing"
	}
	return p.next.name + " at " + spell(p.next.at)
}

// goOn takes a plan that was made anew at an instant. If it begins before, the contract does not say which of the
// occurrences until then are missed as well.
func (t *life) goOn(p *plan, offset, now int64) {
	t.plan, t.perhaps, t.settings = *p, nil, max(t.settings, offset)
	if p.has && p.next.at <= now {
		t.hazy = now
	}
}

// plansAnew returns the plans that the contract permits by the settings below an offset, as of an instant. What was
// decided stays decided, by its name. The planned occurrence is planned at its new time, also if that is past. Nothing
// else becomes due that is past, unless the plan was late already. None: it cannot be judged.
func (t *life) plansAnew(offset, now int64) (out []plan) {
	s := t.seriesBelow(offset)
	if s == nil {
		return nil
	}
	old := t.plan.next
	moved, has := t.named(s, &old)
	from := min(now, old.at) - 1
	for _, left := range t.readings() {
		for _, after := range []int64{max(from, t.reached), from} { // nor how far a skip ahead reaches
			p := t.undecided(s, after, left)
			if has && (!p.has || moved.at < p.next.at) {
				p = t.undecided(s, moved.at-1, left)
			}
			out = append(out, p)
		}
	}
	return out
}

// readings returns what may count as decided. The contract does not say what becomes of one of several that had one
// instant, of one that the old calendars had moved to the time before, and after a rezone of what was only missed. And
// what a missed run has decided depends on the calendars that were in force.
func (t *life) readings() []func(*occurrence) bool {
	decided := func(o *occurrence) bool { return t.done[o.name] || t.skips[o.name] }
	out := []func(*occurrence) bool{
		func(o *occurrence) bool { return decided(o) || t.merged[o.name] },
		decided,
		func(o *occurrence) bool { return decided(o) || t.merged[o.name] || t.passed(o) },
	}
	if t.rezoned {
		out = append(out, func(o *occurrence) bool { return t.went[o.name] || t.skips[o.name] })
	}
	if len(t.maybe) > 0 {
		out = append(out, func(o *occurrence) bool { return decided(o) || t.merged[o.name] || t.maybe[o.name] })
	}
	return out
}

// passed reports whether an occurrence is behind what is decided by the calendars that the plan was made by.
func (t *life) passed(o *occurrence) bool {
	found, ok := t.findIn(t.plan.series, o)
	return ok && found.at <= t.reached
}

// named finds the planned occurrence in another series, unless it is decided.
func (t *life) named(s *series, o *occurrence) (occurrence, bool) {
	if t.done[o.name] || t.skips[o.name] {
		return occurrence{}, false
	}
	return t.findIn(s, o)
}

// findIn finds the occurrence of the same name in a series with other calendars.
func (t *life) findIn(s *series, o *occurrence) (occurrence, bool) {
	if !o.named || s == nil || t.plan.series == nil {
		return occurrence{}, false
	}
	const around = 3 * 86400 * 1000
	least, most := o.at, o.at
	for _, h := range []*holidays{s.holidays, t.plan.series.holidays} {
		if h != nil {
			least, most = least-h.most*86400*1000, most+h.most*86400*1000
		}
	}
	for it := s.later(least - around); ; {
		switch found, ok := it.next(); {
		case !ok || found.at > most+around:
			return occurrence{}, false
		case found.name == o.name || slices.Contains(found.also, o.name):
			return found, true
		}
	}
}

// undecided returns the plan from the first occurrence after an instant that is not decided yet.
func (t *life) undecided(s *series, after int64, left func(*occurrence) bool) plan {
	p := plan{series: s, it: s.later(after)}
	for {
		o, ok := p.it.next()
		if !ok {
			return p
		}
		if !left(&o) {
			p.has, p.next = true, o
			return p
		}
	}
}

// replannedTo reports whether a change of calendars that may be in force by now makes this occurrence the next one. If
// so, the model goes on from there. "" is any name.
func (t *life) replannedTo(name string, at, now int64) bool {
	if !t.known || t.plan.open || t.drift || t.plan.series == nil {
		return false
	}
	for _, offset := range t.changes(t.settings, t.newer) {
		plans := t.plansAnew(offset, now)
		for i := range plans {
			if plans[i].at(name, at) {
				t.goOn(&plans[i], offset, now)
				return true
			}
		}
		if p, ok := t.notLater(offset, name, at, plans); ok {
			t.goOn(&p, offset, now)
			return true
		}
	}
	return false
}

// advancedTo is replannedTo for an occurrence that the engine planned by newer settings than the model: when the one
// before it was decided, or for a command.
func (t *life) advancedTo(name string, at, now int64) bool {
	if !t.known || t.plan.open || t.drift || t.plan.series == nil {
		return false
	}
	if p := t.perhaps; p != nil && p.at(name, at) {
		t.plan, t.perhaps = *p, nil
		return true
	}
	for _, offset := range t.changes(t.settings, t.newer) {
		if s := t.seriesBelow(offset); s != nil {
			if p := t.undecided(s, t.reached, t.readings()[1]); p.at(name, at) {
				t.goOn(&p, offset, now)
				return true
			}
		}
	}
	return false
}

// otherZone reports whether an occurrence is the next one after a register of the same rule in another
// zone, or of other times. The engine knows the last firings only. So it may take for decided what its
// zone shows before the local time that was reached in the old one, and what may have fired before those.
func (t *life) otherZone(name string, at, from int64) bool {
	if t.plan.series == nil || t.plan.open {
		return false
	}
	decided := t.readings()[1]
	p := t.undecided(t.plan.series, from-1, func(o *occurrence) bool {
		const east = 14 * 3600 * 1000
		return decided(o) || o.shown() <= t.shown ||
			len(t.lastWent) == keepFirings && int64(o.shown())*1000-east <= t.lastWent[0]
	})
	if p.at(name, at) {
		t.plan = p
		return true
	}
	return false
}

// notLater returns the plan from an occurrence on, if that has not fired and is not after what was
// planned. Which others of a moved day count as decided is the engine's to say.
func (t *life) notLater(offset int64, name string, at int64, plans []plan) (plan, bool) {
	s := t.seriesBelow(offset)
	if s == nil {
		return plan{}, false
	}
	latest := int64(0)
	for i := range plans {
		if plans[i].has {
			latest = max(latest, plans[i].next.at)
		}
	}
	if moved, ok := t.named(s, &t.plan.next); ok {
		latest = moved.at
	}
	p := t.undecided(s, at-1, func(o *occurrence) bool { return t.went[o.name] || t.skips[o.name] })
	return p, p.at(name, at) && at <= latest
}
