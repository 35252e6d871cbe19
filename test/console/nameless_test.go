package console_test

import (
	"strings"
	"testing"
	"time"
)

// An address that names no trigger says so, and asks for none.
func TestNoTriggerIsNamed(t *testing.T) {
	b := dev(t).open(t, 1200, 900)
	for _, path := range []string{"trigger", "trigger?id="} {
		b.take(&b.asked)
		b.visit(path)
		b.await("h1", "Trigger")
		b.await("main", "No trigger is named.")
		time.Sleep(3 * time.Second) // longer than it waits between two reads
		for _, asked := range b.take(&b.asked) {
			if strings.HasPrefix(asked, "/v1/triggers") {
				t.Errorf("%s asks for %s", path, asked)
			}
		}
	}
}
