package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// floors are where partitions begin. kfake forgets that when it is killed,
// and forgets a partition's end too once its last segment is deleted; so both
// are written down before it deletes anything.
type floors struct {
	path string

	mu sync.Mutex
	by map[floorKey]floor
}

type floorKey struct {
	topicID   string // base64, as in topics.json
	partition int32
}

type floor struct {
	start int64 // offsets below are gone
	end   int64 // the partition had at least this many; set where it may be emptied
}

type floorJSON struct {
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`
	End       int64  `json:"end,omitempty"`
}

type floorsJSON struct {
	Version int         `json:"version"`
	Floors  []floorJSON `json:"floors"`
}

func loadFloors(path string) (*floors, error) {
	f := &floors{path: path, by: map[floorKey]floor{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := decodeFloors(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", floorsFile, err)
	}
	for _, j := range list {
		f.by[floorKey{j.TopicID, j.Partition}] = floor{j.Start, j.End}
	}
	return f, nil
}

func decodeFloors(raw []byte) ([]floorJSON, error) {
	var j floorsJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, err
	}
	if j.Version != layoutVersion {
		return nil, fmt.Errorf("version %d, want %d", j.Version, layoutVersion)
	}
	for _, f := range j.Floors {
		if f.Partition < 0 || f.Start < 0 || f.End < 0 {
			return nil, fmt.Errorf("partition %d begins at %d and ends at %d", f.Partition, f.Start, f.End)
		}
	}
	return j.Floors, nil
}

func (f *floors) at(topicID string, partition int32) floor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[floorKey{topicID, partition}]
}

// raise moves floors up, durably, all or none.
func (f *floors) raise(up map[floorKey]floor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := false
	for k, v := range up {
		old := f.by[k]
		v.start, v.end = max(v.start, old.start), max(v.end, old.end)
		changed = changed || v != old
		f.by[k] = v
	}
	if !changed {
		return nil
	}
	return f.save()
}

// keep forgets topics that are not in ids.
func (f *floors) keep(ids map[string]bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.by)
	for k := range f.by {
		if !ids[k.topicID] {
			delete(f.by, k)
		}
	}
	if len(f.by) == before {
		return nil
	}
	return f.save()
}

func (f *floors) save() error {
	j := floorsJSON{Version: layoutVersion, Floors: []floorJSON{}}
	for k, v := range f.by {
		j.Floors = append(j.Floors, floorJSON{k.topicID, k.partition, v.start, v.end})
	}
	raw, err := json.Marshal(j)
	if err != nil {
		return err
	}
	if err := replaceFile(f.path, raw); err != nil {
		return fmt.Errorf("write floors: %w", err)
	}
	return nil
}

// onDeleteRecords runs in kfake's loop, before kfake deletes.
func (b *node) onDeleteRecords(req *kmsg.DeleteRecordsRequest) error {
	if b.floors == nil {
		return nil
	}
	up := map[floorKey]floor{}
	for _, rt := range req.Topics {
		for _, rp := range rt.Partitions {
			b.floor(up, rt.Topic, rp.Partition, rp.Offset)
		}
	}
	return b.floors.raise(up)
}

// floor adds what deleting below before would make of a partition; -1 is its
// end. A request that kfake will refuse adds nothing.
func (b *node) floor(up map[floorKey]floor, topic string, partition int32, before int64) {
	t := b.topics.named(topic)
	if t == nil {
		return
	}
	end := b.end(topic, partition)
	if before == -1 {
		before = end
	}
	if before < 0 || before > end {
		return
	}
	up[floorKey{t.idText(), partition}] = floor{before, end}
}
