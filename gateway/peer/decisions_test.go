package peer

import (
	"context"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// What is decided when the owner runs out of time is answered all the same.
func TestDecisionsInPart(t *testing.T) {
	own := partly{}
	list := []Question{{Offset: 1}, {Offset: 9}, {Offset: 3}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := decisions(ctx, own, 0, list); err == nil {
		t.Error("no error, although one is open")
	}
	if !list[0].Answered || list[1].Answered || !list[2].Answered {
		t.Errorf("answered: %+v", list)
	}
	got, err := unpackOffsets(packOffsets(list), "k")
	if err != nil || len(got) != 3 || got[0].Offset != 1 || got[1].Offset != 9 || got[2].Offset != 3 ||
		got[2].Key != "k" {
		t.Errorf("unpacked %+v, %v", got, err)
	}
	for _, text := range []string{"!", "gA"} {
		if _, err := unpackOffsets(text, "k"); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// An answer to another instance says how far a tenant is behind.
func TestDecisionSaysWhoIsBehind(t *testing.T) {
	w, err := wireDecision(&Question{Answered: true, Decision: Decision{Behind: 90 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := w.decision(); err != nil || d.Behind != 90*time.Second {
		t.Errorf("%v, %v", d.Behind, err)
	}
}

// partly has decided what stands below offset 5.
type partly struct{ Owner }

func (partly) Decision(ctx context.Context, _ trigger.Key, _ int32, offset int64) (Decision, bool, error) {
	if offset < 5 {
		return Decision{}, true, nil
	}
	<-ctx.Done()
	return Decision{}, false, ctx.Err()
}
