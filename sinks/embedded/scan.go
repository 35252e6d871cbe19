package embedded

import (
	"context"
	"fmt"

	"github.com/waterclock/waterclock/sinks"
)

var _ sinks.Scanner = (*Store)(nil)

// Scan visits every row of a table that has not expired, in key order.
func (s *Store) Scan(ctx context.Context, t sinks.Table, visit func(sinks.Row) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	decode := map[sinks.Table]func(k, v []byte) (sinks.Row, bool, error){
		sinks.TableEvents: s.eventDigest, sinks.TableState: s.stateDigest, sinks.TableMinute: s.minuteDigest,
		sinks.TableLetters: s.letterDigest, sinks.TableLetterEnds: s.letterEndDigest,
		sinks.TableNotifications: s.notificationDigest,
	}[t]
	prefix := []byte{map[sinks.Table]byte{
		sinks.TableEvents: tableEvents, sinks.TableState: tableState,
		sinks.TableMinute: tableMinute, sinks.TableLetters: tableLetters, sinks.TableLetterEnds: tableEnds,
		sinks.TableNotifications: tableNotifications,
	}[t]}
	err := s.scan(prefix, after(prefix), func(k, v []byte) error {
		row, ok, err := decode(k, v)
		if err == nil && ok {
			err = visit(row)
		}
		if err == nil {
			err = ctx.Err()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("scan %s: %w", t, err)
	}
	return nil
}

func (s *Store) eventDigest(_, v []byte) (sinks.Row, bool, error) {
	r, err := decodeEvent(v)
	return sinks.EventDigest(&r, s.retention()), sinks.EventUntil(r.EventUS, s.retention()).After(s.opts.Now()), err
}

func (s *Store) stateDigest(k, v []byte) (sinks.Row, bool, error) {
	tenant, key, err := parseStateKey(k)
	if err != nil {
		return sinks.Row{}, false, err
	}
	var row sinks.StateRow
	if err := decodeRow(v, &row); err != nil {
		return sinks.Row{}, false, err
	}
	state, ok := row.At(s.opts.Now(), tenant, key)
	return sinks.StateDigest(&state, s.retention()), ok, nil
}

func (s *Store) minuteDigest(k, v []byte) (sinks.Row, bool, error) {
	e, ok, err := decodeMinute(k, v, s.opts.Now(), nil)
	return sinks.MinuteDigest(&e, s.retention()), ok, err
}
