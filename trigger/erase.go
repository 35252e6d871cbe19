package trigger

// erase forgets the content and leaves a record without it for the horizon.
func (d *decision) erase(c *Command) *Error {
	old := d.s
	next := &State{
		Key: c.Key, Status: Erased, ForgetAt: d.now.Add(d.m.Horizon), UpdatedAt: c.From.Append,
		Trimmed: true,
	}
	if old != nil {
		next.Revision, next.Seq, next.Life, next.LastAppend = old.Revision, old.Seq, old.Life, old.LastAppend
		next.Redriven = old.Redriven // ids only, so that a later life does not send the same attempt once more
		if old.Status != Unknown {   // an unknown key was never created
			next.CreatedAt = old.CreatedAt
		}
	}
	if !old.endedAfter(c) {
		// as endWithCancel: a register appended before it stays erased
		next.Life.Partition, next.Life.Offset = c.From.Partition, c.From.Offset
	}
	next.Revision++
	var planned Live
	var others []Live
	if old != nil {
		planned, others = old.planned()
	}
	stopped := d.escalating()
	d.s = next
	d.addFact(Fact{Type: ErasedFact, Scheduled: planned.Nominal, Occurrence: planned.Occurrence})
	d.addDroppedFacts(others, "erased")
	for i := range stopped {
		stopped[i].Was = &Spec{} // so that no fact has its content
	}
	d.addStoppedFacts(stopped)
	return nil
}
