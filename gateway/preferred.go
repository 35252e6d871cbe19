package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// namesChannel are the fields of a register that say where it goes.
var namesChannel = []string{"channel", "escalation", "callback"}

// preferred is the header with the first channel that the user of a register prefers;
// none if the register says where it goes, or the user prefers nothing.
func (s *encoder) preferred(r *request, fs fields) ([]trigger.Header, error) {
	var u preferences.User
	if s.prefs.store == nil || json.Unmarshal(fs.value("user_id"), &u.ID) != nil {
		return nil, nil
	}
	for _, name := range namesChannel {
		if fs.given(name) {
			return nil, nil
		}
	}
	u.Tenant = r.who.Tenant
	if u.Check() != nil {
		return nil, nil // the check of the command says what is wrong
	}
	name, err := s.firstPreferred(r, u)
	if unreadable(err) {
		return nil, problem.Unavailable(err, "the user's preferences cannot be parsed, and a register with user_id "+
			"and without channel goes to the first of their preferred_channels: name the channel, or PUT preferences")
	}
	if err != nil {
		return nil, problem.Unavailable(err, "the preference store does not answer, and a register with user_id and "+
			"without channel goes to the first of the user's preferred_channels: name the channel, or repeat it later")
	}
	if name == "" {
		return nil, nil
	}
	return []trigger.Header{{Key: topics.HeaderPreferred, Value: []byte(name)}}, nil
}

// preferredWithin bounds what a register waits for the preference store.
const preferredWithin = 2 * time.Second

// firstPreferred is the first channel that a register may take from its user's
// preferences; "" if there is none.
func (s *encoder) firstPreferred(r *request, u preferences.User) (string, error) {
	if r.prefersAway != nil {
		return "", r.prefersAway
	}
	ctx, cancel := context.WithTimeout(r.Context(), preferredWithin)
	defer cancel()
	var all []*preferences.Preferences
	err := s.prefs.withPreferences(ctx, u.Tenant, func() (err error) {
		all, err = s.prefs.store.Get(ctx, []preferences.User{u})
		return err
	})
	if unreadable(err) {
		return "", err // it says nothing of other lines' users
	}
	if err != nil {
		r.prefersAway = err
		return "", err
	}
	if i := slices.IndexFunc(all[0].Preferred, topics.MayPrefer); i >= 0 {
		return all[0].Preferred[i], nil
	}
	return "", nil
}
