package wheel_test

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/wheel"
)

// The caller brings the time, in milliseconds. Entries come out in the order of
// their due times, and never early.
func ExampleWheel_Advance() {
	w := wheel.New(wheel.Options{Window: time.Minute}, 0)
	w.Add(7000, "tea")
	w.Add(3000, "egg")
	fmt.Println("beyond the window:", w.Add(3_600_000, "cake"))
	for _, now := range []int64{2999, 5000, 10_000} {
		w.Advance(now, func(due int64, ref string) bool {
			fmt.Println(now, ref, "was due at", due)
			return true
		})
	}
	fmt.Println("left:", w.Len())
	// Output:
	// beyond the window: false
	// 5000 egg was due at 3000
	// 10000 tea was due at 7000
	// left: 0
}
