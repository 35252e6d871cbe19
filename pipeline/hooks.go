//go:build !failpoints && !flaws

package pipeline

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/recovery"
)

// hooks are where the engine can be built wrong on purpose, to see that the
// suites would notice: hooks_flaws.go. Here they do what is right.
type hooks struct{}

func (hooks) transactionalID(id string) string { return id }
func (hooks) isolation() kafkapart.Isolation   { return kafkapart.ReadCommitted }

// beforeEnd is called when a transaction is about to be ended.
func (p *Partition) beforeEnd(*turn, *kgo.Record) error { return nil }

// restoreStore brings the store up to the nonce.
func (p *Partition) restoreStore(ctx context.Context, nonce []byte, ids recovery.TopicIDs) error {
	return p.restore(ctx, nonce, ids)
}
