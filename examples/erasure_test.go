package examples

import "testing"

func TestErasure(t *testing.T) {
	runGuide(t, startDev(t), t.TempDir(), "../docs/api/erasure.md", 1)
}
