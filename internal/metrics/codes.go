package metrics

import "sync"

// Bounds of labels that somebody else chooses.
const (
	maxCodes     = 64
	maxCodeBytes = 64
	otherCode    = "other"
)

// codes are the labels that were given out.
type codes struct {
	mu    sync.Mutex
	known map[string]bool
}

// label is the code, or "other" once there are too many.
func (c *codes) label(code string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.known[code]:
		return code
	case len(c.known) >= maxCodes || len(code) > maxCodeBytes || code == "":
		return otherCode
	case c.known == nil:
		c.known = map[string]bool{}
	}
	c.known[code] = true
	return code
}
