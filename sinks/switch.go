package sinks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Moved is an offset of a consumer group that Switch has set back.
type Moved struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// Positions returns how far a history has got in the topics of its three groups. events and letters
// are the names of topics events and dead-letter.
func Positions(ctx context.Context, h History, events, letters string) (map[TopicPartition]int64, error) {
	all, err := h.ContentProgress(ctx)
	if err != nil {
		return nil, err
	}
	at := maps.Clone(all)
	for topic, read := range map[string]func(context.Context) (map[int32]Progress, error){
		events: h.Progress, letters: h.LetterProgress,
	} {
		progress, err := read(ctx)
		if err != nil {
			return nil, err
		}
		for partition, p := range progress {
			at[TopicPartition{topic, partition}] = p.Next
		}
	}
	return at, nil
}

// Switch sets the offsets of a group back to the positions of the history that it shall write next,
// so that this history also gets what the group wrote into another one. A partition without a
// position is read from its beginning. No offset is set forward: rows that are written once more
// are the same. The group's projectors must be stopped, because the brokers refuse while it has
// members.
func Switch(ctx context.Context, kafka []kgo.Opt, group string, at map[TopicPartition]int64) ([]Moved, error) {
	client, err := kgo.NewClient(kafka...)
	if err != nil {
		return nil, fmt.Errorf("switch: connect: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	now, err := admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) { // it reads everything from the beginning
		return nil, nil
	}
	if err == nil {
		err = now.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("switch: read the offsets of group %s: %w", group, err)
	}
	topics := slices.Collect(maps.Keys(now))
	if len(topics) == 0 {
		return nil, nil
	}
	starts, err := admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("switch: begin of the log: %w", err)
	}
	moved, offsets := movesBack(group, now, starts, at)
	if len(moved) == 0 {
		return nil, nil
	}
	if err := admin.CommitAllOffsets(ctx, group, offsets); err != nil {
		return nil, fmt.Errorf("switch: set the offsets of group %s (its projectors must be stopped): %w", group, err)
	}
	return moved, nil
}

// movesBack returns the offsets of a group that are beyond the positions.
func movesBack(group string, now kadm.OffsetResponses, starts kadm.ListedOffsets, at map[TopicPartition]int64) (
	moved []Moved, offsets kadm.Offsets,
) {
	offsets = kadm.Offsets{}
	now.Each(func(o kadm.OffsetResponse) {
		start, ok := starts.Lookup(o.Topic, o.Partition)
		if !ok || start.Err != nil { // a topic that was deleted
			return
		}
		to := max(start.Offset, at[TopicPartition{o.Topic, o.Partition}])
		if to < o.At {
			offsets.AddOffset(o.Topic, o.Partition, to, -1)
			moved = append(moved, Moved{group, o.Topic, o.Partition, o.At, to})
		}
	})
	slices.SortFunc(moved, func(x, y Moved) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return moved, offsets
}
