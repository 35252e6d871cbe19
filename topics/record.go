package topics

import (
	"strconv"

	"github.com/waterclock/waterclock/trigger"
)

// Record is a Kafka record as the codecs see it. A nil Key or Value is null;
// an empty one is not.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp trigger.Instant // the broker's append time
	Key       []byte
	Value     []byte
	Headers   []trigger.Header
}

// Header prefixes with a meaning.
const (
	commandPrefix = "wc-"  // the header spelling of a command, and errors
	enginePrefix  = "wcx-" // the engine's own
	eventPrefix   = "ce_"  // CloudEvents attributes
)

// Source is the text topic/partition/offset.
func Source(topic string, partition int32, offset int64) string {
	var space [128]byte
	b := append(append(space[:0], topic...), '/')
	b = append(strconv.AppendInt(b, int64(partition), 10), '/')
	return string(strconv.AppendInt(b, offset, 10))
}

// fail makes the error every decoder of this package returns.
func fail(code trigger.Code, field, msg string) *trigger.Error {
	return &trigger.Error{Code: code, Field: field, Msg: msg}
}
