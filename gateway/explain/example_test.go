package explain_test

import (
	"fmt"
	"strings"

	"github.com/waterclock/waterclock/gateway/explain"
)

func ExampleExplain() {
	// The trigger's partition moves to another owner, so nobody answers for the trigger.
	answer := explain.Explain(&explain.Input{ID: "tea", Restoring: "its partition moves"})
	fmt.Println(answer.Code)
	for sentence := range strings.SplitSeq(answer.Sentence, ". ") {
		fmt.Println(sentence)
	}
	// Output:
	// restoring
	// The state of tea is unknown at the moment: its partition moves
	// It does not fire until then; what falls due meanwhile fires late.
}
