package embedded

// gathered are the updates of one table's rows by a batch. Two updates of a row are merged before they
// are written: that costs less than what Pebble does when it flushes them. The store keeps its memory
// for the next batch: when each batch made its own, growing it was most of what a batch allocated.
type gathered[T any, R row[T]] struct {
	at   map[string]int // index by key
	keys []string
	rows []T
}

// add adds an update that was made after the earlier ones.
func (g *gathered[T, R]) add(key []byte, update *T) {
	if i, ok := g.at[string(key)]; ok {
		R(&g.rows[i]).Merge(update)
		return
	}
	if g.at == nil {
		g.at = map[string]int{}
	}
	k := string(key)
	g.at[k] = len(g.keys)
	g.keys, g.rows = append(g.keys, k), append(g.rows, *update)
}

// writeTo writes each row once, in the order of their first updates.
func (g *gathered[T, R]) writeTo(c *change) error {
	for i, k := range g.keys {
		c.key = append(c.key[:0], k...)
		if err := c.mergeRow(c.key, &g.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// mostKept is how many rows' memory is kept from one batch to the next.
const mostKept = 4096

// reset forgets the rows of a batch, also of one that failed.
func (g *gathered[T, R]) reset() {
	if len(g.keys) > mostKept {
		*g = gathered[T, R]{}
		return
	}
	clear(g.at)
	clear(g.keys)
	clear(g.rows)
	g.keys, g.rows = g.keys[:0], g.rows[:0]
}
