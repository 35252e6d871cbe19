package notify

import (
	"context"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// Message is one notification for one address, rendered: all that a provider
// needs. A provider changes nothing of it.
type Message struct {
	// ID is ce_id: the same for every attempt. Providers use it, or a hash of it,
	// as the key by which they drop or collapse repeats.
	ID string
	// Attempt and Postponed tell emissions of one ID apart (ce_wcattempt, ce_wcpostponed),
	// so that a provider's later report decides the one that it is about. Attempt 0 is
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
	HTML     string // mails only; "" has none
	DeepLink string // "" has none
	// Data are the pairs that a push hands to the app: ack_url, notification_id,
	// expires_at, and what the payload's data has.
	Data map[string]string
	// AckURL is the link by which the receiver acknowledges, to be shown where the text does
	// not have it; "" has none.
	AckURL string
	// UnsubscribeURL is for List-Unsubscribe (RFC 8058); "" has none. Mails only.
	UnsubscribeURL string

	Locale  string    // BCP 47, that the text is in; "" is unknown
	High    bool      // priority high
	Expires time.Time // past it the message is of no use; zero if it never expires
}

// Answer is what a provider said of one message.
type Answer struct {
	// Result is what the receipt says. Codes are the provider's own where it has
	// them, such as UNREGISTERED.
	Result worker.Result
	// Ref is the provider's own id of the message, by which its later status reports
	// name it; "" has none.
	Ref string
	// DeadAddress says that the address will never work again, as a push token
	// of an app that was removed. It is deleted from the user's addresses.
	DeadAddress bool
	// Throttled says that the provider wants fewer messages, whoever they are for.
	// Result is then worker.Postpone. The tenant's other messages wait, too.
	Throttled bool
	// MayBeAddress goes with Throttled: the provider does not say whether it is this address
	// that gets too much, or everything. Then other addresses go on, until more of them meet
	// the same.
	MayBeAddress bool
}

// Provider sends messages of one channel. It is safe for concurrent use and sends a
// message once: waiting and trying again are the engine's.
type Provider interface {
	// Name is that of the settings and of addresses: fcm, apns, twilio, smtp, outbox.
	Name() string
	// Send sends m before ctx ends. What went wrong is in the answer, too.
	Send(ctx context.Context, m *Message) Answer
	// Close gives connections back. No Send is under way.
	Close() error
}
