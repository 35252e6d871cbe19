package trigger

// ack ends the occurrences in flight, because the user has reacted. If none is in flight, it
// has no effect.
func (d *decision) ack(c *Command) *Error {
	if d.s == nil {
		return nil
	}
	acked := d.dropInFlight(c.Occurrence)
	if len(acked) == 0 {
		return nil
	}
	d.showStatus()
	if d.endsNow() && !d.s.Recurring() {
		d.end(Fired)
	}
	d.addAckedFacts(acked)
	d.deriveStatusUnlessEnded()
	return nil
}

// addAckedFacts adds a fact for each occurrence that the ack ended.
func (d *decision) addAckedFacts(acked []Live) {
	for i := range acked {
		d.addFactOf(&acked[i], Fact{Type: EscalationStopped, Reason: "ack"})
	}
}

// dropInFlight ends the occurrences in flight: the named one, or all. The life belongs to the
// name, so that a late ack of an earlier life ends nothing of this one.
func (d *decision) dropInFlight(occurrence string) (dropped []Live) {
	live := make([]Live, 0, len(d.s.Live))
	for _, l := range d.s.Live {
		if l.open() && (occurrence == "" || l.Occurrence == occurrence) {
			dropped = append(dropped, l)
			continue
		}
		live = append(live, l)
	}
	if len(dropped) > 0 {
		d.s.Live = live
	}
	return dropped
}
