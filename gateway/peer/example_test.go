package peer_test

import (
	"context"
	"fmt"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/trigger"
)

// kitchen owns all partitions and has one trigger.
type kitchen struct{ peer.Owner }

func (kitchen) Get(_ context.Context, key trigger.Key) (*trigger.State, error) {
	return &trigger.State{Key: key, Status: trigger.Pending}, nil
}

// nobody owns nothing.
type nobody struct{ peer.Owner }

func (nobody) Get(context.Context, trigger.Key) (*trigger.State, error) { return nil, peer.ErrNoOwner }

// A door asks the router, and need not know where a trigger is. A partition without an owner is an
// error, and never an unknown trigger.
func ExampleRouter_Get() {
	for _, owner := range []peer.Owner{kitchen{}, nobody{}} {
		router := peer.NewRouter(peer.Config{Partitions: 4, Owner: owner})
		state, err := router.Get(context.Background(), "tea")
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(state.Key, state.Status)
	}
	// Output:
	// tea PENDING
	// not_owner: the partition has no owner at the moment; try again
}
