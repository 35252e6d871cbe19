package check

// An occurrence of a trigger with an escalation goes out step by step. Each step has attempts and
// postponements of its own, and a time before which it must not go (docs/SEMANTICS.md, section
// 10). All that an occurrence does is in events, so the model follows them and judges each.

// step is one step of an escalation.
type step struct {
	channel string
	after   int64 // ms, since the emission of the step before; 0 in the first
}

// steps reads the field escalation.
func (c *command) steps(raw []byte) (all []step) {
	items, ok := elements(raw)
	if !ok || len(items) == 0 {
		c.blame("invalid", "escalation")
	}
	for _, item := range items {
		var s step
		if err := members(item, func(name, v []byte) error {
			switch string(name) {
			case "channel":
				s.channel = string(unquoted(v))
			case "after":
				s.after = c.millis("escalation", string(unquoted(v)))
			}
			return nil
		}); err != nil {
			c.blame("invalid", "escalation")
		}
		all = append(all, s)
	}
	return all
}

// channelOf returns the channel of a step.
func (w *what) channelOf(step int) string {
	if step < len(w.steps) {
		return w.steps[step].channel
	}
	return w.channel
}

// escalates reports whether an occurrence has steps, or may have some: its content is not known.
func (l *live) escalates() bool { return l.content == nil || len(l.content.what.steps) > 0 }

// next returns the step that follows; nil if there is none, or the content is not known.
func (l *live) next() *step {
	if l.content == nil || l.step+1 >= len(l.content.what.steps) {
		return nil
	}
	return &l.content.what.steps[l.step+1]
}

// waitsFrom notes when the next step goes, counted from an instant. An earlier emission of the step
// may have set it.
func (l *live) waitsFrom(at int64) {
	if next := l.next(); next != nil && l.nextAt == 0 {
		l.nextAt = at + next.after
	}
}

// answered ends the present step, by an event that lets the next one go at its time. Without a
// next one the occurrence ends.
func (l *live) answered(e *event) {
	if l.next() == nil {
		l.gone = true
		return
	}
	l.due = 0
	l.waitsFrom(e.occurred)
}

// begin begins a step.
func (l *live) begin(step int) {
	l.step, l.attempt, l.postponed, l.first, l.due, l.nextAt = step, 1, 0, nil, 0, 0
}

// failedStep replays delivery.failed: the next step goes at once. A step whose topic refused it fails without
// having begun.
func (l *live) failedStep(e *event) {
	if e.reason == "due_topic" && e.step == l.step+1 && l.next() != nil {
		l.begin(e.step)
	}
	if l.next() == nil {
		l.gone = true
		return
	}
	l.due, l.nextAt = 0, e.occurred
}

// holds reports whether a postponement holds the ladder: the next step counts from the emission that
// goes out then.
func holds(e *event) bool { return e.reason == "quiet_hours" || e.reason == "preferences_away" }

// advanced replays an escalation.advanced. It must name the next step, and not come before its time
// (C3, C5, C8).
func (t *life) advanced(e *event) {
	l := t.liveOf(e.occurrence)
	if l == nil {
		if t.known && !t.drift && t.part.begun {
			t.fail(Illegal, t.eventRecord(e), "%s goes on to step %d, and it never went out", e.occurrence, e.step)
		}
		return
	}
	switch {
	case !t.known || t.drift || l.content == nil:
	case l.gone && (t.status == cancelled || t.status == erased):
		t.fail(AfterStop, t.eventRecord(e), "step %d of %s goes out although the trigger is %s", e.step, e.occurrence,
			t.status)
	case l.gone:
		t.fail(Illegal, t.eventRecord(e), "step %d of %s goes out after the escalation has ended", e.step,
			e.occurrence)
	case e.step != l.step+1 || l.next() == nil:
		t.fail(Illegal, t.eventRecord(e), "step %d of %s follows step %d, and it has %d", e.step, e.occurrence, l.step,
			len(l.content.what.steps))
	case l.nextAt == 0:
		t.fail(Early, t.eventRecord(e), "step %d of %s goes out while a postponement holds it", e.step, e.occurrence)
	case e.occurred < l.nextAt-t.o.Epsilon.Milliseconds():
		t.fail(Early, t.eventRecord(e), "step %d of %s goes out at %s, it was due at %s", e.step, e.occurrence,
			spell(e.occurred), spell(l.nextAt))
	}
	l.begin(e.step)
	l.due, l.gone = e.occurred, false
}

// firstOfStep replays the first emission of a further step, which escalation.advanced has just told of
// (C6, C7, C8).
func (t *life) firstOfStep(e *event, d *due) {
	l := t.liveOf(e.occurrence)
	if l == nil || l.step != e.step || l.due == 0 || l.gone {
		if t.known && !t.drift && t.part.begun && (l == nil || l.content != nil) {
			t.fail(Illegal, t.eventRecord(e), "step %d of %s went out, and no event tells that it goes on", e.step,
				e.occurrence)
		}
		if l == nil {
			return
		}
		l.begin(e.step)
	}
	l.due = 0
	l.waitsFrom(e.occurred)
	if d == nil {
		return
	}
	l.first = d
	t.inOrder(e, d)
	t.mixed(d, l.content, l.revision)
	t.notExpired(d)
}

// endedBefore reports an event that ends an occurrence although a step follows, or that gives it up although one was
// accepted (C8).
func (t *life) endedBefore(e *event, l *live) {
	if !t.known || t.drift || l.content == nil {
		return
	}
	ends := e.kind == evDeadLettered && e.reason != "overrun" || e.state == fired && t.when.kind != whenSeries
	switch steps := len(l.content.what.steps); {
	case ends && e.step+1 < steps:
		t.fail(Illegal, t.eventRecord(e), "%s ends %s at step %d of %d", e.kind, e.occurrence, e.step, steps)
	case e.kind == evDeadLettered && l.accepted:
		t.fail(Illegal, t.eventRecord(e), "%s is told as dead-lettered, and a step of it was accepted", e.occurrence)
	}
}

// overdueStep reports a step that should have gone by an instant and did not (C2).
func (t *life) overdueStep(until int64) {
	for name, l := range t.live {
		next := l.next()
		if next == nil || l.gone || l.nextAt == 0 || l.nextAt > until || finished(t.status) {
			continue
		}
		if after := l.content.what.expires; after > 0 && l.nextAt > l.nominal+after {
			continue // no event tells that it expired while the step before is waited for
		}
		t.fail(LostFire, nil, "step %d of %s was due at %s and has not gone out %d ms later", l.step+1, name,
			spell(l.nextAt), t.v.end-l.nextAt)
		return
	}
}
