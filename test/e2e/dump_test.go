package e2e

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/trigger"
)

// dump reads all committed records of a topic up to its end now.
func dump(t *testing.T, brokers []string, topic string) []*kgo.Record {
	t.Helper()
	out := services.ReadTopic(t, brokers, topic, kgo.ReadCommitted())
	return slices.DeleteFunc(out, func(r *kgo.Record) bool { return r.Attrs.IsControl() })
}

func headers(r *kgo.Record) []trigger.Header {
	out := make([]trigger.Header, len(r.Headers))
	for i, h := range r.Headers {
		out[i] = trigger.Header{Key: h.Key, Value: h.Value}
	}
	return out
}
