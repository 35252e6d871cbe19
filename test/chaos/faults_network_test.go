package chaos

import "time"

// What becomes of the network, between engines and brokers, and between brokers.
var networkFaults = []*fault{
	{
		name: "an engine is cut off from all brokers", least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			return w.everyNode(w.anyIndex(), w.cut)
		},
	},
	{
		name: "an engine is cut off from one broker", least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			return w.cut(w.anyIndex(), w.anyNode())
		},
	},
	{
		name: "an engine hears no broker any more", least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			return w.everyNode(w.anyIndex(), w.deafen) // its requests arrive: EndTxn, and nobody tells it
		},
	},
	{
		name: "no broker hears an engine any more", least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			return w.everyNode(w.anyIndex(), w.mute)
		},
	},
	{
		name: "an engine hears one broker no more", least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			return w.deafen(w.anyIndex(), w.anyNode())
		},
	},
	{name: "the network flaps", strike: func(w *world) func() {
		w.during(12*time.Second, func() {
			heal := w.everyNode(w.anyIndex(), w.cut)
			time.Sleep(w.between(200*time.Millisecond, 3*time.Second))
			heal()
			time.Sleep(w.between(200*time.Millisecond, 2*time.Second))
		})
		return nil
	}},
	{
		name: "an engine has no network at all", needs: root, least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			g := guest(w.anyIndex())
			w.kafka.Isolate(g)
			return func() { w.kafka.Rejoin(g) }
		},
	},
	{
		name: "a broker is isolated", needs: root, least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			n := w.anyNode()
			w.kafka.Isolate(n)
			return func() { w.kafka.Rejoin(n) }
		},
	},
	{
		name: "two brokers lose each other", needs: root, least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			a, b := w.twoNodes()
			w.kafka.Cut(a, b)
			return func() { w.kafka.Mend(a, b) }
		},
	},
	{
		name: "a broker hears another no more", needs: root, least: 5 * time.Second, most: 14 * time.Second,
		strike: func(w *world) func() {
			a, b := w.twoNodes()
			w.kafka.Mute(a, b)
			return func() { w.kafka.Unmute(a, b) }
		},
	},
	{
		name: "a broker is cut off from the other brokers only", needs: root, least: 5 * time.Second,
		most: 14 * time.Second, strike: func(w *world) func() {
			n := w.anyNode()
			a, b := n%nodes+1, (n+1)%nodes+1
			w.kafka.Cut(n, a)
			w.kafka.Cut(n, b)
			return func() { w.kafka.Mend(n, a); w.kafka.Mend(n, b) } // deposed, and clients still ask it
		},
	},
}

// anyIndex is the number of an engine, from 1.
func (w *world) anyIndex() int { return 1 + w.rng.IntN(len(w.engines)) }

// twoNodes are two brokers.
func (w *world) twoNodes() (a, b int) {
	a = w.anyNode()
	return a, (a+w.rng.IntN(nodes-1))%nodes + 1
}

// everyNode does something between an engine and each broker.
func (w *world) everyNode(engine int, do func(engine, node int) func()) (heal func()) {
	var heals []func()
	for n := range nodes {
		heals = append(heals, do(engine, n+1))
	}
	return func() {
		for _, h := range heals {
			h()
		}
	}
}
