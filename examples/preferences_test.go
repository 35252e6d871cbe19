package examples

import "testing"

func TestPreferences(t *testing.T) {
	runGuide(t, startDev(t), t.TempDir(), "../docs/api/preferences.md", 5)
}
