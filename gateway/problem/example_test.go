package problem_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

func Example() {
	w := httptest.NewRecorder()
	problem.New(422, trigger.CodeInvalid, "delay", "delay is negative: write 7m").Send(w)
	fmt.Println(w.Code, w.Header().Get("Content-Type"))

	away := problem.Unavailable(errors.New("dial 10.0.0.5: refused"), "Kafka does not answer").Retry(3 * time.Second)
	fmt.Println(away, away.RetryAfter) // the cause is for the log
	// Output:
	// 422 application/problem+json
	// unavailable: Kafka does not answer 3
}
