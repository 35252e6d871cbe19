//go:build failpoints

package pipeline

import "fmt"

// Spoil builds an engine wrong, for tests of real processes: a binary with
// failpoints is the only one that can (test/e2e).
func (o *Options) Spoil(name string) error {
	f, ok := flaws[name]
	if !ok {
		return fmt.Errorf("no flaw is called %q", name)
	}
	o.flaw = f
	return nil
}
