//go:build !failpoints && !flaws

package pipeline

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// hooks can break the engine on purpose, to check that the test suites notice
// (hooks_flaws.go). In this build they do nothing.
type hooks struct{}

func (hooks) transactionalID(id string) string { return id }
func (hooks) isolation() kafkapart.Isolation   { return kafkapart.ReadCommitted }

// beforeEnd runs before a transaction is ended.
func (p *Partition) beforeEnd(*turn, *kgo.Record) error { return nil }

// restoreStore brings the store up to the nonce.
func (o *opening) restoreStore(ctx context.Context, nonce []byte) error {
	return o.restore(ctx, nonce)
}
