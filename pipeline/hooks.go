//go:build !failpoints && !flaws

package pipeline

import "github.com/waterclock/waterclock/internal/kafkapart"

// hooks are where the engine can be built wrong on purpose, to see that the
// suites would notice: hooks_flaws.go. Here they do nothing.
type hooks struct{}

func (hooks) transactionalID(id string) string { return id }
func (hooks) isolation() kafkapart.Isolation   { return kafkapart.ReadCommitted }
func (hooks) storeBeforeCommit() bool          { return false }
func (hooks) skipRestore() bool                { return false }
