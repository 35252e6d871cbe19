package pipelinetest

import (
	"time"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// Channels are the settings of the tests: every channel exists and has no
// receipts, unless its name begins with r-.
type Channels struct{ Names topics.Names }

func (c Channels) Known(string) bool    { return false }
func (c Channels) AutoCreate() bool     { return true }
func (c Channels) Configured() []string { return nil }
func (c Channels) Settings(name string) pipeline.ChannelSettings {
	s := pipeline.ChannelSettings{}
	s.Topic = c.Names.Due(name)
	s.ReceiptTimeout, s.Retry = time.Hour, []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}
	s.Receipts = len(name) > 2 && name[:2] == "r-"
	return s
}
