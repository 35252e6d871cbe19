package topics

import (
	"fmt"
	"strconv"

	"github.com/waterclock/waterclock/trigger"
)

// headerErrorLast marks a record on topic rejected that is about a whole batch.
const headerErrorLast = errorPrefix + "last-offset"

// UnreadableBatch is a batch that the engine cannot decode, or may not for its size. Its
// records are not known, so it is refused as a whole.
type UnreadableBatch struct {
	Topic     string
	Partition int32
	First     int64 // offsets that are refused
	Last      int64
	Records   int    // as the batch's header says
	Bytes     int    // compressed, as in the log
	Codec     string // "none", "gzip", …
}

// Record is the record that stands for the batch: it has no key, and the batch's first
// offset.
func (u *UnreadableBatch) Record() *Record {
	return &Record{Topic: u.Topic, Partition: u.Partition, Offset: u.First}
}

// Refusal says what is wrong with the batch, for a person.
func (u *UnreadableBatch) Refusal(code trigger.Code, why string) *trigger.Error {
	return &trigger.Error{
		Code: code,
		Msg: fmt.Sprintf("offsets %d to %d were not read: a batch of %d records in %d bytes, compression %s, %s",
			u.First, u.Last, u.Records, u.Bytes, u.Codec, clip(why, maxErrorDetail/2)),
	}
}

// RejectedBatch is the headers of the record on topic rejected for the batch.
func RejectedBatch(u *UnreadableBatch, e *trigger.Error) []trigger.Header {
	_, _, headers := RejectedWithin(u.Record(), e, MinRecordBytes)
	return append(headers, header(headerErrorLast, strconv.FormatInt(u.Last, 10)))
}
