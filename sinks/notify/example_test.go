package notify_test

import (
	"context"
	"fmt"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workertest"
	"github.com/waterclock/waterclock/sinks/notify"
)

// printer is a provider that prints messages.
type printer struct{}

func (printer) Name() string { return "printer" }
func (printer) Close() error { return nil }

func (printer) Send(_ context.Context, m *notify.Message) notify.Answer {
	fmt.Printf("%s to %s: %s\n", m.Channel, m.Address, m.Body)
	return notify.Answer{Result: worker.Accepted()}
}

// A worker takes the message from the payload, gives it to a provider, and returns what becomes
// the receipt.
func ExampleWorker_Handle() {
	w, err := notify.New(notify.Options{Channel: "sms", Providers: []notify.Provider{printer{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, payload := range []string{`{"to":"+4930123456","body":"The tea is ready."}`, `{"to":"+4930123456"}`} {
		result, err := w.Handle(context.Background(), workertest.Event(workertest.Payload(payload)))
		fmt.Println(result.Outcome, result.Code, err)
	}
	// Output:
	// sms to +4930123456: The tea is ready.
	// accepted  <nil>
	// failed invalid_payload <nil>
}
