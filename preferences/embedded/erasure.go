package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/preferences"
)

// erasureValue is the stored form of an erasure; its key is the hash of the user.
type erasureValue struct {
	Tenant   string          `json:"tenant"`
	User     string          `json:"user,omitempty"` // "" once it is done
	At       int64           `json:"at"`             // unix µs
	Before   map[int32]int64 `json:"before,omitempty"`
	Triggers int             `json:"triggers"`
	Seq      int64           `json:"seq"`
	Done     int64           `json:"done,omitempty"` // unix µs; 0: not yet
}

func erasureKey(hash []byte) []byte { return append([]byte("x"), hash...) }

func pendingKey(seq int64) []byte { return binary.BigEndian.AppendUint64([]byte("y"), uint64(seq)) }

// readErasure returns nil if there is no erasure.
func (s *Store) readErasure(hash []byte) (*erasureValue, error) {
	text, err := s.get(string(erasureKey(hash)))
	if err != nil || text == nil {
		return nil, err
	}
	return decodeErasure(text)
}

func decodeErasure(text []byte) (*erasureValue, error) {
	v := &erasureValue{}
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("read an erasure: %w", err)
	}
	return v, nil
}

func putErasure(b *pebble.Batch, hash []byte, v *erasureValue) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write an erasure: %w", err)
	}
	return b.Set(erasureKey(hash), text, nil)
}

func (v *erasureValue) erasure() preferences.Erasure {
	return preferences.Erasure{
		User: preferences.User{Tenant: v.Tenant, ID: v.User}, At: time.UnixMicro(v.At).UTC(), Before: v.Before,
		Triggers: v.Triggers, Done: v.Done != 0, Seq: v.Seq,
	}
}

// Erase deletes all data of a user, and writes the erasure.
func (s *Store) Erase(ctx context.Context, e preferences.Erasure) error {
	known := false
	forgotten := func() { s.userForgotten(e.User, known) }
	return s.changeThen(ctx, "erase a user", forgotten, func(b *pebble.Batch) (err error) {
		if known, err = s.has(e.User); err != nil {
			return err
		}
		last, err := s.move(e.User)
		if err != nil {
			return err
		}
		dropMove(b, last)
		_ = b.Delete([]byte(userKey('p', e.User)), nil) // an error shows at the commit of the batch
		if err := s.dropMessages(b, e.User, nil); err != nil {
			return err
		}
		hash := e.User.Hash()
		old, err := s.readErasure(hash[:])
		if err != nil {
			return err
		}
		seq := s.seq + 1
		v := &erasureValue{
			Tenant: e.User.Tenant, User: e.User.ID, At: e.At.UnixMicro(), Before: map[int32]int64{}, Seq: seq,
		}
		maps.Copy(v.Before, e.Before)
		if old != nil && old.Done == 0 {
			_ = b.Delete(pendingKey(old.Seq), nil)
			s.forget(old.Seq)
			v.Triggers, v.At = old.Triggers, max(v.At, old.At)
			for p, end := range old.Before {
				v.Before[p] = max(v.Before[p], end)
			}
		}
		_ = b.Set(pendingKey(seq), hash[:], nil)
		_ = b.Set([]byte("s"), binary.BigEndian.AppendUint64(nil, uint64(seq)), nil)
		s.seq = seq // if the commit fails, this leaves a harmless gap
		return putErasure(b, hash[:], v)
	})
}

// dropMessages deletes claims of a user's messages: all of them, or those made up to an instant.
func (s *Store) dropMessages(b *pebble.Batch, u preferences.User, until *time.Time) error {
	of := userKey('c', u)
	return s.each(of+"\x00", of+"\x01", func(k, value []byte) (bool, error) {
		v, err := decodeClaim(value)
		if err != nil {
			return false, err
		}
		if m, ok := messageOf(string(k)); ok && (until == nil || v.At <= until.UnixMicro()) {
			dropMessage(b, m, v)
		}
		return true, nil
	})
}

// Erasure returns a user's newest erasure.
func (s *Store) Erasure(ctx context.Context, u preferences.User) (e preferences.Erasure, ok bool, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return e, false, err
	}
	defer leave()
	return s.erasure(u)
}

func (s *Store) erasure(u preferences.User) (e preferences.Erasure, ok bool, err error) {
	hash := u.Hash()
	v, err := s.readErasure(hash[:])
	if err != nil || v == nil {
		return e, false, err
	}
	return v.erasure(), true, nil
}

// waiting is an erasure that may be claimed.
type waiting struct {
	seq    int64
	hash   []byte
	tenant string
	passed bool      // its tenant's turn comes only after those of tenants behind turn.After
	until  time.Time // when its last claim ended; zero: it was never claimed
}

// before reports whether to claim w rather than x.
func (w *waiting) before(x *waiting) bool {
	if w.passed != x.passed {
		return x.passed
	}
	return cmp.Or(cmp.Compare(w.tenant, x.tenant), w.until.Compare(x.until), cmp.Compare(w.seq, x.seq)) < 0
}

// tenantOf is the tenant of an erasure that is not done. The caller holds s.write.
func (s *Store) tenantOf(seq int64, hash []byte) (string, error) {
	if tenant, ok := s.erasers[seq]; ok {
		return tenant, nil
	}
	v, err := s.readErasure(hash)
	if err != nil || v == nil {
		return "", err
	}
	s.erasers[seq] = v.Tenant
	return v.Tenant, nil
}

// forget drops what memory has of an erasure. The caller holds s.write.
func (s *Store) forget(seq int64) {
	delete(s.erasing, seq)
	delete(s.erasers, seq)
}

// ClaimErasure claims an erasure that is not done and has no valid claim.
func (s *Store) ClaimErasure(
	ctx context.Context, turn preferences.Turn, lease time.Duration,
) (e preferences.Erasure, ok bool, err error) {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return e, false, err
	}
	defer leave()
	now := time.Now()
	var next *waiting
	err = s.eachPending(func(seq int64, hash []byte) (bool, error) {
		until := s.erasing[seq].until
		if now.Before(until) {
			return true, nil
		}
		tenant, err := s.tenantOf(seq, hash)
		w := &waiting{seq, hash, tenant, tenant <= turn.After, until}
		if err == nil && !slices.Contains(turn.Except, tenant) && (next == nil || w.before(next)) {
			next = w
		}
		return true, err
	})
	if err != nil || next == nil {
		return e, false, err
	}
	v, err := s.readErasure(next.hash)
	if err != nil || v == nil || v.Seq != next.seq || v.Done != 0 {
		return e, false, err
	}
	e = v.erasure()
	e.Claim = strconv.FormatInt(now.UnixNano(), 36)
	s.erasing[v.Seq] = claim{e.Claim, v.Seq, now.Add(lease)}
	return e, true, nil
}

// eachPending calls f for the erasures that are not done, oldest first, until f returns false.
func (s *Store) eachPending(f func(seq int64, hash []byte) (more bool, err error)) error {
	return s.each("y", "z", func(k, v []byte) (bool, error) {
		if len(k) != 9 {
			return true, nil
		}
		return f(int64(binary.BigEndian.Uint64(k[1:])), bytes.Clone(v))
	})
}

// PendingErasures counts the erasures that are not done. The oldest is the one with the lowest
// seq.
func (s *Store) PendingErasures(ctx context.Context) (n int, oldest time.Time, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, oldest, err
	}
	defer leave()
	err = s.eachPending(func(_ int64, hash []byte) (bool, error) {
		if n++; n > 1 {
			return true, nil
		}
		v, err := s.readErasure(hash)
		if err == nil && v != nil {
			oldest = time.UnixMicro(v.At).UTC()
		}
		return true, err
	})
	return n, oldest, err
}

// ours returns an erasure if the caller's claim is valid and the erasure is still the newest. The
// caller holds s.write.
func (s *Store) ours(e *preferences.Erasure) (hash []byte, v *erasureValue, err error) {
	sum := e.User.Hash()
	if s.erasing[e.Seq].id != e.Claim {
		return nil, nil, nil
	}
	v, err = s.readErasure(sum[:])
	if err != nil || v == nil || v.Seq != e.Seq || v.Done != 0 {
		return nil, nil, err
	}
	return sum[:], v, nil
}

// RenewErasure extends a claim, and stores how many triggers were erased.
func (s *Store) RenewErasure(ctx context.Context, e preferences.Erasure, lease time.Duration) (ok bool, err error) {
	err = s.change(ctx, "renew an erasure", func(b *pebble.Batch) error {
		hash, v, err := s.ours(&e)
		if err != nil || v == nil {
			return err
		}
		ok = true
		s.erasing[e.Seq] = claim{e.Claim, e.Seq, time.Now().Add(lease)}
		v.Triggers = e.Triggers
		return putErasure(b, hash, v)
	})
	return ok && err == nil, err
}

// FinishErasure ends an erasure, and compacts the database, so that no file keeps the erased
// data.
func (s *Store) FinishErasure(ctx context.Context, e preferences.Erasure) error {
	ended := false
	err := s.change(ctx, "end an erasure", func(b *pebble.Batch) error {
		hash, v, err := s.ours(&e)
		if err != nil || v == nil {
			return err
		}
		at := time.UnixMicro(v.At)
		if err := s.dropMessages(b, e.User, &at); err != nil {
			return err
		}
		_ = b.Delete(pendingKey(v.Seq), nil)
		s.forget(e.Seq)
		ended = true
		v.User, v.Before, v.Triggers, v.Done = "", nil, e.Triggers, time.Now().UnixMicro()
		return putErasure(b, hash, v)
	})
	if err != nil || !ended {
		return err
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	// If compaction fails now, later writes will cause it.
	if err := errors.Join(s.db.Flush(), s.db.Compact(ctx, []byte{0}, []byte{0xff}, false)); err != nil {
		return fmt.Errorf("compact after an erasure: %w", err)
	}
	return nil
}

// sweepErasures drops erasures that were done long ago.
func (s *Store) sweepErasures(b *pebble.Batch, now time.Time) error {
	return s.each("x", "y", func(k, text []byte) (bool, error) {
		v, err := decodeErasure(text)
		if err == nil && v.Done != 0 && !now.Before(time.UnixMicro(v.Done).Add(preferences.ErasureKept)) {
			_ = b.Delete(k, nil)
		}
		return true, err
	})
}
