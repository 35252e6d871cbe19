package chaos

import "time"

// What becomes of the history: the engines do not notice, and in the end its
// tables are the fold of the event log.
var historyFaults = []*fault{
	{
		name: "Cassandra is frozen", needs: cassandra, least: 8 * time.Second, most: 20 * time.Second,
		strike: func(w *world) func() {
			w.db.Pause()
			return w.db.Cont
		},
	},
	{name: "Cassandra flaps", needs: cassandra, strike: func(w *world) func() {
		w.during(12*time.Second, func() {
			w.db.Pause()
			time.Sleep(w.between(100*time.Millisecond, 1500*time.Millisecond))
			w.db.Cont()
			time.Sleep(w.between(100*time.Millisecond, 800*time.Millisecond))
		})
		return nil
	}},
	{
		name: "Cassandra is killed", needs: cassandra, least: time.Second, most: 8 * time.Second,
		strike: func(w *world) func() {
			w.db.Kill9()
			return w.db.Restart
		},
	},
	{name: "the history is killed again and again", needs: cassandra, strike: func(w *world) func() {
		w.during(10*time.Second, func() {
			w.history.kill()
			w.history.launch()
			time.Sleep(w.between(0, 4*time.Second))
		})
		return nil
	}},
}
