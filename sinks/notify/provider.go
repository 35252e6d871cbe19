package notify

import (
	"context"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// Message is one rendered notification for one address: everything that a provider needs. A
// provider must not change it.
type Message struct {
	// ID is ce_id: the same for every attempt. Providers use it, or a hash of it, as the key by
	// which they drop or collapse copies.
	ID string
	// Attempt and Postponed distinguish the emissions of one ID (ce_wcattempt, ce_wcpostponed).
	// So a provider's later report decides the emission that it is about. Attempt 0 means
	// unknown.
	Attempt   int
	Postponed int

	Channel string // push, sms or email
	Tenant  string
	Trigger string // trigger key without the tenant
	User    string // "" if the trigger names none
	Address string // a push token, an E.164 number or a mail address

	Title    string // push title, mail subject
	Body     string // plain text
	HTML     string // for mails; "": none
	DeepLink string // "": none
	// Data are the pairs that a push passes to the app: ack_url, notification_id, expires_at, and
	// the payload's data.
	Data map[string]string
	// AckURL is the link by which the receiver acknowledges. It is added if the text does not
	// contain it. "": none.
	AckURL string
	// UnsubscribeURL is for List-Unsubscribe (RFC 8058), in mails only. "": none.
	UnsubscribeURL string

	Locale  string    // language of the text, BCP 47; "": unknown
	High    bool      // priority high
	Expires time.Time // the message is useless afterwards; zero: never
}

// Answer is a provider's answer to one message.
type Answer struct {
	// Result is for the receipt. Codes are the provider's own if it has any, such as
	// UNREGISTERED.
	Result worker.Result
	// Ref is the provider's own id of the message, which its later status reports use. "": none.
	Ref string
	// DeadAddress reports that the address will never work again, for example the push token of a
	// removed app. It is deleted from the user's addresses.
	DeadAddress bool
	// Throttled reports that the provider wants fewer messages, for any receiver. Result is then
	// worker.Postpone. The tenant's other messages wait too.
	Throttled bool
	// MayBeAddress goes with Throttled. The provider does not say whether this address gets too
	// much, or all together. Other addresses continue until more of them get the same answer.
	MayBeAddress bool
}

// Provider sends messages of one channel. It is safe for concurrent use and sends a message once.
// The engine waits and retries.
type Provider interface {
	// Name is the name in settings and in addresses: fcm, apns, twilio, smtp, outbox.
	Name() string
	// Send sends m before ctx ends. Errors are part of the answer.
	Send(ctx context.Context, m *Message) Answer
	// Close closes connections. No Send may be running.
	Close() error
}

// Reserver is a Provider that sends few messages at once. The worker reserves before it reads the
// preferences for the last time. So they are not old when a message goes out that had to wait.
type Reserver interface {
	Provider
	// Reserve waits until a message of a tenant can be sent, at most for within. One Send with the
	// returned context does not wait. Call release after it.
	Reserve(ctx context.Context, tenant string, within time.Duration) (
		with context.Context, release func(), err error)
}
