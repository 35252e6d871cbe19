package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
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

// A command whose key names no trigger is on page Now as any other that is refused, and leads to the list of these.
func TestNamelessIsOnNow(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("")
	b.await("#facts .newest", "Nothing yet")
	cl := s.client()
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{
		Topic: s.prefix + "commands", Key: []byte("blue/"), Value: []byte(`{"op":"register","delay":"1h"}`),
	}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	b.await("#facts .newest", "command.rejected · no trigger")
	b.click("Show 1 new fact")
	b.await("#facts table", "invalid_key")
	b.click("no trigger")
	b.await("main", "Refused commands with code invalid_key")
	b.await("main", "the key ends with '/'")
}
