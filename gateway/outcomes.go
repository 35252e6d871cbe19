package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// asked is one command whose decision somebody waits for, and its answer.
type asked struct {
	key    trigger.Key
	offset int64

	answered   bool
	remembered bool // false: it was decided, but how is forgotten
	decided    Decided
}

// outcomes asks an owner about commands of one of its partitions. The last is
// asked first: once it is decided all are, so that one waits for many. What
// is decided when ctx ends is still answered.
func outcomes(ctx context.Context, own Owner, partition int32, list []asked) error {
	byOffset := make([]*asked, 0, len(list))
	for i := range list {
		if !list[i].answered {
			byOffset = append(byOffset, &list[i])
		}
	}
	slices.SortFunc(byOffset, func(a, b *asked) int { return cmp.Compare(b.offset, a.offset) })
	var missing error
	for _, a := range byOffset {
		d, ok, err := own.Outcome(ctx, a.key, partition, a.offset)
		switch {
		case err == nil:
			a.answered, a.remembered, a.decided = true, ok, d
		case ctx.Err() == nil || moved(err):
			return err
		default:
			missing = err
		}
	}
	return missing
}

// packOffsets spells offsets for a URL, ascending or not: each as the distance
// from the one before.
func packOffsets(list []asked) string {
	var b []byte
	last := int64(0)
	for i := range list {
		b = binary.AppendVarint(b, list[i].offset-last)
		last = list[i].offset
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

var errOffsets = errors.New("offsets are garbled")

// unpackOffsets reads what packOffsets spelled. All commands are of one
// partition, so any key of it stands for all.
func unpackOffsets(text string, key trigger.Key) ([]asked, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errOffsets
	}
	var list []asked
	for last := int64(0); len(b) > 0; {
		d, n := binary.Varint(b)
		if n <= 0 || len(list) == maxBatch {
			return nil, errOffsets
		}
		last += d
		list = append(list, asked{key: key, offset: last})
		b = b[n:]
	}
	return list, nil
}
