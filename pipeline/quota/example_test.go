package quota_test

import (
	"fmt"

	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/trigger"
)

// A tenant may have two pending triggers. Its third register is refused.
func ExampleShare_Admit() {
	ledger := quota.New(func(string) quota.Limit { return quota.Limit{MaxPending: 2} }, 1)
	share := ledger.Share()
	share.Join()
	for range 3 {
		limit, refused := share.Admit("acme", 1000, false)
		if refused == nil {
			share.Moved("acme", 0, trigger.Pending)
		}
		fmt.Printf("%q %v\n", limit, refused)
	}
	// Output:
	// "" <nil>
	// "" <nil>
	// "max_pending" quota_exceeded: tenant acme is at its limit tenants.acme.max_pending, 2
}
