package pipeline

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// openStore opens the store, unless a standby has left it open.
func (p *Partition) openStore() (err error) {
	if p.store == nil {
		p.store, err = openStore(p.opts, p.id, p.log)
	}
	if err != nil {
		return err
	}
	p.changes = p.store.NewBatch()
	return nil
}

// openStore opens a partition's store, or begins an empty one where it is
// damaged.
func openStore(o *Options, id int32, log *slog.Logger) (*statestore.Store, error) {
	so := statestore.Options{Dir: storeDir(o, id), Cache: o.Cache, Logger: log, FS: o.StoreFS}
	st, err := statestore.Open(so)
	if errors.Is(err, statestore.ErrCorrupt) || errors.Is(err, statestore.ErrFormat) {
		if err := quarantine(o, id, log, err); err != nil {
			return nil, err
		}
		st, err = statestore.Open(so)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	return st, nil
}

// quarantine puts a partition's store aside, which is closed and of no use.
func quarantine(o *Options, id int32, log *slog.Logger, why error) error {
	log.Warn("the local store cannot be used; rebuilding it from Kafka", "error", why)
	if _, err := statestore.QuarantineFS(storeFS(o.StoreFS), storeDir(o, id)); err != nil {
		return fmt.Errorf("quarantine store: %w", err)
	}
	return nil
}

// putAside quarantines a closed store in which damage was found while it was in
// use: opening reads the keys alone, and would find nothing wrong with it.
func putAside(o *Options, id int32, log *slog.Logger, err error) {
	if !errors.Is(err, statestore.ErrCorrupt) {
		return
	}
	if err := quarantine(o, id, log, err); err != nil {
		log.Error("a damaged store stays in the way", "error", err)
	}
}

func storeDir(o *Options, id int32) string { return filepath.Join(o.Dir, strconv.Itoa(int(id))) }

func storeFS(fs vfs.FS) vfs.FS {
	if fs == nil {
		return vfs.Default
	}
	return fs
}

// metaReading is since when, and from which topic, a store has been read: a
// store whose filling was broken off says by it how old it is.
const metaReading = "reading"

// reading is the value of metaReading.
type reading struct {
	topic [16]byte        // id of topic state
	at    trigger.Instant // by the brokers' clock, when the reading began; 0: unknown
}

func (r reading) encode() []byte { return append(r.topic[:], number(int64(r.at))...) }

func decodeReading(b []byte) (r reading) {
	if len(b) == 24 {
		copy(r.topic[:], b)
		r.at = trigger.Instant(toNumber(b[16:]))
	}
	return r
}

func (r *replica) position() (int64, error) {
	raw, err := r.store.Meta(metaPosition)
	return toNumber(raw), err
}

// distrust wipes a store that must not be resumed: of other topics, of another
// partition, or older than tombstones are kept.
func (r *replica) distrust(ids topicIDs, now trigger.Instant) error {
	reason, err := r.stale(ids, now)
	r.began = reading{topic: ids.state}
	if err != nil || reason == "" {
		return err
	}
	return r.wipe(reason)
}

func (r *replica) wipe(reason string) error {
	r.opts.Logger.Info("rebuilding the local store from Kafka", "partition", r.id, "reason", reason)
	if err := r.store.Wipe(); err != nil {
		return err
	}
	r.batch = r.store.NewBatch()
	return nil
}

// stale says why the store must not be resumed; "" if it may be. Resuming one
// whose tombstones are compacted away would fire what was cancelled since.
//
// Kafka keeps every tombstone for delete.retention.ms after whoever reads could
// first have missed it. So a store is as old as the newest of two moments:
// when its reading of topic state began, and when the newest turn it has seen
// was written. One half of that time a store may lie, the other is there to
// read what it lacks (apply).
func (r *replica) stale(ids topicIDs, now trigger.Instant) (string, error) {
	began, err := r.store.Meta(metaReading)
	if err != nil {
		return "", err
	}
	raw, err := r.store.Meta(metaProgress)
	if err != nil {
		return "", err
	}
	home, err := r.store.Meta(metaPartition)
	if err != nil {
		return "", err
	}
	if home != nil && toNumber(home) != int64(r.id) {
		return "it is of partition " + strconv.FormatInt(toNumber(home), 10), nil
	}
	if raw == nil {
		return r.staleFilling(decodeReading(began), ids, now)
	}
	pr, err := topics.DecodeProgress(raw)
	if err != nil {
		return "its progress cannot be read", nil
	}
	if pr.StateID != ids.state {
		err := r.opts.gapMadeAgain(r.id, ids.state, "topic %s was deleted and made again, and all pending triggers with it; what topic %s still holds would be decided again",
			r.opts.Names.State(), r.opts.Names.Commands())
		if err != nil {
			return "", err
		}
	}
	since := decodeReading(began)
	if pr.CommandsID != ids.commands || pr.StateID != ids.state || (since.at > 0 && since.topic != ids.state) {
		return "a topic was deleted and made again", nil
	}
	r.since = max(pr.At, since.at)
	return r.tooOld(now, r.opts.MaxAway), nil
}

// staleFilling is stale for a store that has seen no progress yet: its filling
// was broken off, or nobody ever turned the partition.
func (r *replica) staleFilling(began reading, ids topicIDs, now trigger.Instant) (string, error) {
	position, err := r.position()
	switch {
	case err != nil || position == 0:
		return "", err
	case began.at == 0:
		return "its restore was broken off, and nobody knows when it began", nil
	case began.topic != ids.state:
		return "a topic was deleted and made again", nil
	}
	r.since = began.at
	return r.tooOld(now, r.opts.MaxAway), nil
}

// tooOld says how old what was read is, if that is more than allowed; "" if not.
func (r *replica) tooOld(now trigger.Instant, most time.Duration) string {
	if age := now.Sub(r.since); age > most {
		return "it is " + age.Round(time.Minute).String() + " old"
	}
	return ""
}

// storesOf are the partitions that have a store here, good or not.
func storesOf(o *Options) (ids []int32) {
	names, _ := storeFS(o.StoreFS).List(o.Dir) // none yet: nothing
	for _, name := range names {
		if id, err := strconv.ParseInt(name, 10, 32); err == nil && id >= 0 && id < int64(o.Partitions) {
			ids = append(ids, int32(id))
		}
	}
	return ids
}
