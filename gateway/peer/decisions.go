package peer

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// Question is one command whose decision somebody waits for, and its answer.
type Question struct {
	Key    trigger.Key
	Offset int64

	Answered bool
	Known    bool // false: it was decided, but how is forgotten
	Decision Decision
}

// decisions asks an owner about commands of one of its partitions. The last is
// asked first: once it is decided all are, so that one waits for many. What
// is decided when ctx ends is still answered.
func decisions(ctx context.Context, own Owner, partition int32, list []Question) error {
	byOffset := make([]*Question, 0, len(list))
	for i := range list {
		if !list[i].Answered {
			byOffset = append(byOffset, &list[i])
		}
	}
	slices.SortFunc(byOffset, func(a, b *Question) int { return cmp.Compare(b.Offset, a.Offset) })
	var missing error
	for _, a := range byOffset {
		d, ok, err := own.Decision(ctx, a.Key, partition, a.Offset)
		switch {
		case err == nil:
			a.Answered, a.Known, a.Decision = true, ok, d
		case ctx.Err() == nil || Moved(err):
			return err
		default:
			missing = err
		}
	}
	return missing
}

// packOffsets spells offsets for a URL, ascending or not: each as the distance
// from the one before.
func packOffsets(list []Question) string {
	var b []byte
	last := int64(0)
	for i := range list {
		b = binary.AppendVarint(b, list[i].Offset-last)
		last = list[i].Offset
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// MaxQuestions bounds the commands of one question: no batch has more lines.
const MaxQuestions = 10_000

var errOffsets = errors.New("offsets are not valid")

// unpackOffsets reads what packOffsets spelled. All commands are of one
// partition, so any key of it stands for all.
func unpackOffsets(text string, key trigger.Key) ([]Question, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errOffsets
	}
	var list []Question
	for last := int64(0); len(b) > 0; {
		d, n := binary.Varint(b)
		if n <= 0 || len(list) == MaxQuestions {
			return nil, errOffsets
		}
		last += d
		list = append(list, Question{Key: key, Offset: last})
		b = b[n:]
	}
	return list, nil
}
