package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/preferences"
)

// claimValue is the stored form of a claim; its key has the ID.
type claimValue struct {
	Occurrence string `json:"occurrence"`
	Type       string `json:"type,omitempty"`
	Refused    string `json:"refused,omitempty"`
	At         int64  `json:"at"`    // unix µs
	Until      int64  `json:"until"` // unix µs
}

// recipientKey returns the prefix of the keys of a user and channel in a table.
func recipientKey(table byte, m preferences.Message) string {
	return userKey(table, m.User) + "\x00" + m.Channel + "\x00"
}

func claimKey(m preferences.Message) string { return recipientKey('c', m) + m.ID }

// sentKey and overKey are a claim's keys in two other tables: claims of sent messages by
// recipient and time, and all claims by their end.
func sentKey(m preferences.Message, v *claimValue) []byte {
	return append(binary.BigEndian.AppendUint64([]byte(recipientKey('n', m)), uint64(v.At)), m.ID...)
}

// typeKey is like sentKey, in the table of claims that have a type.
func typeKey(m preferences.Message, v *claimValue) []byte {
	return append(binary.BigEndian.AppendUint64([]byte(typeTable(m, v.Type)), uint64(v.At)), m.ID...)
}

func typeTable(m preferences.Message, kind string) string {
	return recipientKey('t', m) + kind + "\x00"
}

func overKey(claim string, v *claimValue) []byte {
	return append(binary.BigEndian.AppendUint64([]byte("e"), uint64(v.Until)), claim...)
}

// Admit decides on messages, and writes the decisions in one batch that is synced to disk.
func (s *Store) Admit(
	ctx context.Context, at time.Time, l preferences.Limits, list []preferences.Message,
) ([]string, error) {
	codes := make([]string, len(list))
	err := s.change(ctx, "claim messages", func(b *pebble.Batch) (err error) {
		for i, m := range list {
			if codes[i], err = admit(b, at, l, m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return codes, nil
}

func admit(b *pebble.Batch, at time.Time, l preferences.Limits, m preferences.Message) (string, error) {
	until := l.Until(at).UnixMicro()
	known, err := readClaim(b, claimKey(m))
	if err != nil {
		return "", err
	}
	if known != nil {
		if until <= known.Until {
			return known.Refused, nil
		}
		dropOver(b, m, known)
		known.Until = until
		return known.Refused, writeClaim(b, m, known)
	}
	ledger := &preferences.Ledger{}
	if ledger.Sent, err = sent(b, at, l, m); err != nil {
		return "", err
	}
	v := &claimValue{Occurrence: m.Occurrence, Type: m.Type, At: at.UnixMicro(), Until: until}
	v.Refused = ledger.Admit(l, at, m)
	return v.Refused, writeClaim(b, m, v)
}

func dropOver(b *pebble.Batch, m preferences.Message, v *claimValue) {
	_ = b.Delete(overKey(claimKey(m), v), nil) // an error shows at the commit of the batch
}

func writeClaim(b *pebble.Batch, m preferences.Message, v *claimValue) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("claim a message: %w", err)
	}
	_ = b.Set([]byte(claimKey(m)), value, nil)
	_ = b.Set(overKey(claimKey(m), v), nil, nil)
	if v.Refused == "" {
		_ = b.Set(sentKey(m, v), value, nil)
		if v.Type != "" {
			_ = b.Set(typeKey(m, v), value, nil)
		}
	}
	return nil
}

// readClaim returns nil if there is no claim.
func readClaim(r pebble.Reader, key string) (*claimValue, error) {
	text, closer, err := r.Get([]byte(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read a claim: %w", err)
	}
	defer closer.Close()
	return decodeClaim(text)
}

func decodeClaim(text []byte) (*claimValue, error) {
	v := &claimValue{}
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("read a claim: %w", err)
	}
	return v, nil
}

// sent returns the claims that decide on a message: the newest ones, and the newest of its type.
// The time it takes does not depend on how many other messages the user got.
func sent(r pebble.Reader, at time.Time, l preferences.Limits, m preferences.Message) ([]preferences.Claim, error) {
	var list []preferences.Claim
	since := l.Since(at)
	err := newest(r, recipientKey('n', m), since, func(c preferences.Claim) bool {
		if len(list) < l.Newest() {
			list = append(list, c)
		}
		return len(list) < l.Newest()
	})
	if err != nil || l.Window == 0 || m.Type == "" {
		return list, err
	}
	err = newest(r, typeTable(m, m.Type), since, func(c preferences.Claim) bool {
		other := c.Occurrence != m.Occurrence
		if other {
			list = append(list, c)
		}
		return !other
	})
	return list, err
}

// newest calls more for the claims in a table that are younger than an instant, newest first,
// until more returns false.
func newest(r pebble.Reader, table string, since time.Time, more func(preferences.Claim) bool) error {
	lower := binary.BigEndian.AppendUint64([]byte(table), uint64(since.UnixMicro()+1))
	end := append([]byte(table[:len(table)-1]), 1)
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: end})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	defer it.Close()
	for valid := it.Last(); valid; valid = it.Prev() {
		v, err := decodeClaim(it.Value())
		if err != nil {
			return err
		}
		if !more(preferences.Claim{
			Message: preferences.Message{
				ID: string(it.Key()[len(table)+8:]), Occurrence: v.Occurrence, Type: v.Type,
			},
			At: time.UnixMicro(v.At),
		}) {
			break
		}
	}
	return it.Error()
}

// Release drops the claim of a message.
func (s *Store) Release(ctx context.Context, m preferences.Message) error {
	return s.change(ctx, "release a message", func(b *pebble.Batch) error {
		v, err := readClaim(b, claimKey(m))
		if v != nil {
			dropMessage(b, m, v)
		}
		return err
	})
}

func dropMessage(b *pebble.Batch, m preferences.Message, v *claimValue) {
	_ = b.Delete([]byte(claimKey(m)), nil)
	_ = b.Delete(sentKey(m, v), nil)
	_ = b.Delete(typeKey(m, v), nil)
	dropOver(b, m, v)
}

// change lets f fill a batch, and commits it. f's reads see the batch's own writes.
func (s *Store) change(ctx context.Context, verb string, f func(b *pebble.Batch) error) error {
	return s.changeThen(ctx, verb, func() {}, f)
}

// changeThen is like change. If the batch was committed, it then calls then, while it still holds
// s.write.
func (s *Store) changeThen(
	ctx context.Context, verb string, then func(), f func(b *pebble.Batch) error,
) error {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	b := s.db.NewIndexedBatch()
	defer b.Close()
	if err := f(b); err != nil {
		return err
	}
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	then()
	return nil
}

// Sweep drops expired claims.
func (s *Store) Sweep(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	err = s.change(ctx, "sweep claims", func(b *pebble.Batch) error {
		end := binary.BigEndian.AppendUint64([]byte("e"), uint64(now.UnixMicro()+1))
		err := s.each("e\x00", string(end), func(k, _ []byte) (bool, error) {
			if dropped >= most {
				return false, nil
			}
			key := string(k[9:])
			v, err := readClaim(b, key)
			if err != nil {
				return false, err
			}
			_ = b.Delete(k, nil)
			if m, ok := messageOf(key); ok && v != nil {
				dropMessage(b, m, v)
			}
			dropped++
			return true, nil
		})
		if err != nil {
			return err
		}
		return s.sweepErasures(b, now)
	})
	return dropped, err
}

// messageOf parses the key of a claim.
func messageOf(key string) (m preferences.Message, ok bool) {
	parts := strings.SplitN(key[1:], "\x00", 4)
	if len(parts) < 4 {
		return m, false
	}
	m.User = preferences.User{Tenant: parts[0], ID: parts[1]}
	m.Channel, m.ID = parts[2], parts[3]
	return m, true
}
