package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// standing is the current state of a trigger in the engine.
type standing struct {
	Spec     *trigger.Spec
	Revision int64
	Status   trigger.Status
}

// gone reports whether a register with the same content would begin a new life.
func (s *standing) gone() bool {
	return s == nil || s.Status == trigger.Cancelled || s.Status == trigger.Failed || s.Status == trigger.Unknown ||
		s.Status == trigger.Erased
}

// survey finds the triggers with these keys and, if tags are given, all triggers that carry them.
type survey func(ctx context.Context, keys []string, tags map[string]string) (map[string]*standing, error)

// surveyor reads from topic state, unless the user named the API with a stronger source than the
// brokers, as commander does.
func (a *app) surveyor(ctx context.Context, c *config.Config) (survey, commander, error) {
	if asksAPI(c) {
		from := newAPI(c)
		status, _, _, err := probe(ctx, from, aliveAt)
		if err == nil && status == http.StatusOK {
			return surveyAPI(c, from), &httpCommander{api: from}, nil
		}
		return nil, nil, errors.Join(err, unhealthy(from, status))
	}
	to, err := newKafkaCommander(ctx, a, c, decisionWithin)
	if err != nil {
		return nil, nil, err
	}
	return a.surveyKafka(c), to, nil
}

// aliveAt is a path that every API serves without authentication. /healthz may be closed.
const aliveAt = "/openapi.json"

func unhealthy(from *api, status int) error {
	if status == 0 {
		return nil
	}
	return failf("%s answered %s with status %d", from.base, aliveAt, status)
}

// surveyKafka folds topic state. The last record of a key counts.
func (a *app) surveyKafka(c *config.Config) survey {
	return func(ctx context.Context, keys []string, tags map[string]string) (map[string]*standing, error) {
		found := map[string]*standing{}
		var newer error
		err := a.readWhole(ctx, c, c.Topic("state"), "reading triggers", func(r *kgo.Record) {
			key := string(r.Key)
			if topics.IsReserved(r.Key) {
				return
			}
			wanted := slices.Contains(keys, key)
			if !wanted && tags == nil {
				return
			}
			delete(found, key)
			if r.Value == nil {
				return
			}
			st, err := topics.DecodeState(trigger.Key(key), r.Value)
			if err != nil {
				newer = fmt.Errorf("read trigger %s from %s: %w", key, r.Topic, err)
				return
			}
			if wanted || hasTags(&st.Spec, tags) && !st.Status.Finished() {
				found[key] = &standing{&st.Spec, st.Revision, st.Status}
			}
		})
		return found, errors.Join(err, newer)
	}
}

// surveyAPI reads each key, and lists by tag.
func surveyAPI(c *config.Config, from *api) survey {
	return func(ctx context.Context, keys []string, tags map[string]string) (map[string]*standing, error) {
		found := map[string]*standing{}
		for _, key := range keys {
			var t map[string]json.RawMessage
			err := from.get(ctx, triggerPath(key), &t)
			if exitOf(err) == exitNotFound {
				continue
			}
			if err == nil {
				found[key], err = standingOf(c, t)
			}
			if err == nil && string(t["payload_hidden"]) == "true" && !found[key].gone() {
				err = failf("this key may not read its payload, which would seem to differ: use a key of role " +
					"writer, or of role reader for diff")
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
		if tags == nil {
			return found, nil
		}
		return found, listTagged(ctx, c, from, tags, found)
	}
}

func listTagged(ctx context.Context, c *config.Config, from *api, tags map[string]string,
	into map[string]*standing,
) error {
	f := &listFlags{state: "PENDING,PAUSED,IN_FLIGHT"}
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		f.tags = append(f.tags, name+":"+tags[name])
	}
	for cursor := ""; ; {
		var page struct {
			Items      []map[string]json.RawMessage `json:"items"`
			NextCursor string                       `json:"next_cursor"`
		}
		var q url.Values = f.query(cursor, 0)
		if err := from.get(ctx, "/v1/triggers?"+q.Encode(), &page); err != nil {
			return err
		}
		for _, t := range page.Items {
			s, err := standingOf(c, t)
			if err != nil {
				return err
			}
			into[textOf(t["trigger_id"])] = s
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

func textOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // anything but a string counts as empty
	return s
}

// ofOneWay are the fields that only one way of saying when uses. timeFieldsOf finds out which way
// a trigger uses.
var ofOneWay = []string{"delay", "fire_at", "recurrence", "start", "until", "count", "include", "exclude"}

// contentFields returns the fields that a register and a trigger's JSON share, without ofOneWay.
func contentFields() (names []string) {
	for _, f := range topics.RegisterFields() {
		if f.Kept && !slices.Contains(ofOneWay, f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// standingOf converts a trigger from the API into the register that produced it.
func standingOf(c *config.Config, t map[string]json.RawMessage) (*standing, error) {
	s := &standing{}
	_ = json.Unmarshal(t["revision"], &s.Revision) // only shown, so an error does not matter
	status, known := trigger.ParseStatus(textOf(t["state"]))
	if !known {
		return nil, fmt.Errorf("this version does not know state %s", t["state"])
	}
	s.Status = status
	var err error
	fields := registerOf(t)
	if s.Spec, err = specOf(c, textOf(t["trigger_id"]), fields); err != nil && status.Finished() {
		// The content of a finished trigger is no longer stored, so channel webhook has no callback.
		delete(fields, "channel")
		delete(fields, "escalation")
		if s.Spec, err = specOf(c, textOf(t["trigger_id"]), fields); err == nil {
			s.Spec.Channel = textOf(t["channel"])
		}
	}
	return s, err
}

// registerOf returns the fields of the register that produced a trigger.
func registerOf(t map[string]json.RawMessage) map[string]any {
	fields := map[string]any{}
	names := append(contentFields(), timeFieldsOf(t)...)
	for _, name := range names {
		if raw, ok := t[name]; ok {
			fields[name] = raw
		}
	}
	if raw, ok := t["registered_fire_at"]; ok && fields["fire_at"] != nil {
		fields["fire_at"] = raw
	}
	return fields
}

// timeFieldsOf returns the names of the time fields that the register used. An answer contains
// the next instant as well.
func timeFieldsOf(t map[string]json.RawMessage) []string {
	switch {
	case t["delay"] != nil:
		return []string{"delay"}
	case t["recurrence"] != nil || t["include"] != nil:
		return []string{"recurrence", "start", "until", "count", "include", "exclude"}
	}
	return []string{"fire_at"}
}
