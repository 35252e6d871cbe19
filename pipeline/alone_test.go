package pipeline

import (
	"testing"
)

// TestStateWentBack: a turn's records of topic state stand before the end of the
// last turn. Topic state has lost its end under the owner, who must not go on as
// if nothing had been.
func TestStateWentBack(t *testing.T) {
	p := &Partition{stateNext: 100, names: ownNames{state: "state"}, kept: &Kept{}}
	if err := p.checkAlone(t.Context(), 100, 110); err != nil {
		t.Errorf("right behind the last turn: %v", err)
	}
	if err := p.checkAlone(t.Context(), 50, 60); err == nil {
		t.Error("the turn stands before the last one, and nobody minds")
	}
}
