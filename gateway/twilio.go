package gateway

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/twilio"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TwilioCallbacks is what status callbacks of Twilio are checked against.
type TwilioCallbacks struct {
	PublicURL string          // setting public_url
	Tokens    func() []string // auth tokens as they are now
}

// smsChannel is the channel whose worker sends by Twilio.
const smsChannel = "sms"

// TwilioStatus is what is read of the form of a callback. Twilio sends more, and signs all of
// it.
type TwilioStatus struct {
	MessageStatus string `json:"MessageStatus"       doc:"queued, sending, sent, delivered, undelivered, failed, …"`
	ErrorCode     string `json:"ErrorCode,omitempty" doc:"Of undelivered and failed"`
}

func providerRoutes(p *parts) []route {
	return []route{{
		method: http.MethodPost, pattern: twilio.Path, handle: p.twilio.postTwilioStatus,
		doc: operation{
			id: "twilioStatus",
			summary: "Turns Twilio's report of an SMS into a receipt. Twilio calls it and signs the request; the " +
				"query names the due event",
			body: of[TwilioStatus](), bodyType: "application/x-www-form-urlencoded", answers: answers{204: nil},
		},
	}}
}

// twilioStatus takes what Twilio reports of messages.
type twilioStatus struct {
	bodies *bodies

	callbacks  *TwilioCallbacks
	commands   *commandLog
	kafka      *producer.Producer
	names      topics.Names
	noRoom     func() string
	now        func() time.Time
	partitions int32
}

// postTwilioStatus writes the receipt that a status callback means. It answers 204 once the
// receipt is durable, so that Twilio's log shows what was not taken.
func (s *twilioStatus) postTwilioStatus(w http.ResponseWriter, r *request) error {
	t := s.callbacks
	if t == nil {
		return problem.New(http.StatusNotFound, trigger.CodeNotFound, "",
			"no Twilio account is configured here: set providers.twilio and public_url")
	}
	body, err := s.bodies.body(w, r)
	if err != nil {
		return err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return problem.Malformed("send a form, as application/x-www-form-urlencoded")
	}
	receipt, err := t.receipt(r.URL.RawQuery, form, r.Header.Get(twilio.SignatureHeader))
	if err != nil {
		return err
	}
	if receipt != nil {
		if why := s.noRoom(); why != "" {
			return problem.Unavailable(nil, why)
		}
		receipt.At = trigger.At(s.now())
		if err := s.writeReceipt(r.Context(), receipt); err != nil {
			return problem.Unavailable(err, "the receipt was not written")
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// errForged is all that a forger learns.
var errForged = problem.New(http.StatusForbidden, problem.CodeForbidden, "",
	"the signature or the reference is wrong: only Twilio may call this URL")

// receipt is what a callback means; nil for a status that decides nothing.
func (t *TwilioCallbacks) receipt(query string, form url.Values, signature string) (*topics.Receipt, error) {
	tokens := t.Tokens()
	// The URL as Twilio got it: what a proxy in front has made of it does not matter.
	called := strings.TrimRight(t.PublicURL, "/") + twilio.Path + "?" + query
	if !twilio.Signed(tokens, called, form, signature) {
		return nil, errForged
	}
	ref, err := twilio.Open(tokens, query)
	if err != nil {
		return nil, errForged
	}
	outcome, code, detail, ok := twilio.Status(form.Get("MessageStatus"), form.Get("ErrorCode"))
	if !ok {
		return nil, nil
	}
	receipt := &topics.Receipt{
		Channel: smsChannel, Outcome: outcome, Attempt: ref.Attempt, Postponed: ref.Postponed,
		Code: code, Detail: detail,
	}
	if ref.Attempt == 0 {
		receipt.Postponed = -1 // it is not known which emission it was
	}
	receipt.Key, receipt.Occurrence, receipt.Step, err = topics.ParseDueID(ref.DueID)
	return receipt, err
}

// writeReceipt waits until a receipt is durable, within the bound of a write.
func (s *twilioStatus) writeReceipt(ctx context.Context, r *topics.Receipt) error {
	done := make(chan location, 1)
	key := []byte(r.Key)
	s.kafka.TryProduce(context.WithoutCancel(ctx), &kgo.Record{
		Topic: s.names.Receipts(), Key: key, Value: topics.AppendReceipt(nil, r),
		Partition: topics.Partition(key, s.partitions),
	}, func(_ *kgo.Record, err error) { done <- location{err: err} })
	return s.commands.durable(done).err
}
