package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/pipeline/handover"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/topics"
)

// Gap is an offset from which an operator lets an input continue, although records before
// it are lost: --accept-gap PARTITION:OFFSET.
type Gap struct {
	Partition int32
	Offset    int64
}

func (g Gap) String() string { return fmt.Sprintf("%d:%d", g.Partition, g.Offset) }

// ParseGaps reads PARTITION:OFFSET pairs, separated by commas.
func ParseGaps(text string) ([]Gap, error) {
	var out []Gap
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		p, o, found := strings.Cut(one, ":")
		partition, err1 := strconv.ParseInt(p, 10, 32)
		offset, err2 := strconv.ParseInt(o, 10, 64)
		if !found || err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil,
				fmt.Errorf("%q is not PARTITION:OFFSET, such as 3:4711: copy it from the message of the partition "+
					"that refuses", one)
		}
		out = append(out, Gap{int32(partition), offset})
	}
	return out, nil
}

// ErrGap says that retention or compaction removed commands or receipts while no engine ran the
// partition. Only an operator can decide to continue (--accept-gap).
var ErrGap = errors.New("commands or receipts are missing")

// gap refuses to open a partition, unless the operator has accepted to continue from this
// very offset. An acceptance is good for one gap. The message names the offsets accepted so
// far, too, because several gaps must be accepted together.
func (o *Options) gap(partition int32, offset int64, format string, args ...any) error {
	at := Gap{partition, offset}
	why := fmt.Sprintf(format, args...)
	all := at.String()
	for _, accepted := range o.AcceptGaps {
		if accepted == at {
			o.Logger.Warn("continuing although records are lost (accepted by the operator)", "partition", partition,
				"offset", offset, "lost", why)
			return nil
		}
		if accepted.Partition == partition {
			all += "," + accepted.String()
		}
	}
	return fmt.Errorf("%w: %s. Start with --accept-gap %s to go on", ErrGap, why, all)
}

// gapRecreated is gap for a topic that was deleted and made again.
func (o *Options) gapRecreated(partition int32, id [16]byte, format string, args ...any) error {
	return o.gap(partition, handover.Anew(id), format, args...)
}

// These are the reasons for which one partition is refused, as metrics name them.
const (
	refusedGap    = "gap"
	refusedFormat = "newer_format"
	RefusedWriter = "second_writer"
	refusedLimit  = "topic_limit"
	RefusedDisk   = "disk_full"
)

// Refusal says why a partition must not be opened before an operator has acted, or a newer
// version owns it; "" if trying anew may help. The other partitions of the process go on.
func Refusal(err error) string {
	switch {
	case errors.Is(err, ErrGap):
		return refusedGap
	case errors.Is(err, topics.ErrNewer):
		return refusedFormat
	case errors.Is(err, errSecondWriter):
		return RefusedWriter
	case errors.Is(err, errStateTooLarge):
		return refusedLimit
	}
	return ""
}

// EndsProcess reports whether an error concerns every partition.
func EndsProcess(err error) bool {
	return errors.Is(err, recovery.ErrPartitions) || errors.Is(err, ErrForeignGroup) ||
		errors.Is(err, ErrForeignTopics) || errors.Is(err, ErrForeignPrefix)
}
