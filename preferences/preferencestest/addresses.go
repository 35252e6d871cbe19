package preferencestest

import (
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/preferences"
)

// RunAddresses tests DropAddress on a store.
func RunAddresses(t *testing.T, s preferences.Store) {
	full := func() *preferences.Preferences {
		return &preferences.Preferences{Locale: "de", Zone: "Asia/Tokyo", Addresses: preferences.Addresses{
			Push: []preferences.PushAddress{{Provider: "fcm", Token: "a"}, {Provider: "apns", Token: "a"}},
			SMS:  "+4915112345678", Email: "ada@example.com",
		}}
	}
	drop := func(u preferences.User, channel, provider, value string) bool {
		t.Helper()
		dropped, err := preferences.DropAddress(t.Context(), s, u, preferences.Address{
			Channel: channel, Provider: provider,
			Value: value,
		})
		if err != nil {
			t.Fatal(err)
		}
		return dropped
	}
	get := func(u preferences.User) *preferences.Preferences {
		t.Helper()
		all, err := s.Get(t.Context(), []preferences.User{u})
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	for _, u := range []preferences.User{ada, bob} {
		if err := s.Put(t.Context(), u, full()); err != nil {
			t.Fatal(err)
		}
	}
	if !drop(ada, "push", "fcm", "a") || !drop(ada, "sms", "", "+4915112345678") || !drop(ada, "email", "",
		"ada@example.com") {
		t.Error("an address that is there was not dropped")
	}
	for _, a := range [][3]string{
		{"push", "fcm", "a"},
		{"push", "fcm", "b"},
		{"push", "apns", "b"},
		{"sms", "", "+4915112345678"},
		{
			"sms", "",
			"",
		},
		{"email", "", ""},
		{"webhook", "", "a"},
	} {
		if drop(ada, a[0], a[1], a[2]) {
			t.Errorf("%v is not there, and was dropped", a)
		}
	}
	if drop(preferences.User{Tenant: "default", ID: "nobody"}, "sms", "", "+4915112345678") {
		t.Error("an unknown user's address was dropped")
	}
	want := full()
	want.Addresses = preferences.Addresses{Push: []preferences.PushAddress{{Provider: "apns", Token: "a"}}}
	if got := get(ada); string(got.Encode()) != string(want.Encode()) {
		t.Errorf("left %s, want %s", got.Encode(), want.Encode())
	}
	if got := get(bob); string(got.Encode()) != string(full().Encode()) {
		t.Errorf("another user has %s", got.Encode())
	}
	dropAgainstPut(t, s)
}

// dropAgainstPut runs drops of old tokens and PUTs of new tokens at once. The last PUT must stay.
func dropAgainstPut(t *testing.T, s preferences.Store) {
	with := func(token string) *preferences.Preferences {
		return &preferences.Preferences{Addresses: preferences.Addresses{
			Push: []preferences.PushAddress{{Provider: "fcm", Token: token}}, Email: "ada@example.com",
		}}
	}
	for range 30 {
		if err := s.Put(t.Context(), ada, with("old")); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Put(t.Context(), ada, with("new")); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			old := preferences.Address{Channel: "push", Provider: "fcm", Value: "old"}
			if _, err := preferences.DropAddress(t.Context(), s, ada, old); err != nil {
				t.Error(err)
			}
		})
		all.Wait()
		got, err := s.Get(t.Context(), []preferences.User{ada})
		if err != nil || string(got[0].Encode()) != string(with("new").Encode()) {
			t.Fatalf("left %s, %v", got[0].Encode(), err)
		}
	}
}

// RunOptOuts tests OptOut on a store.
func RunOptOuts(t *testing.T, s preferences.Store) {
	nobody := preferences.User{Tenant: "opt-outs", ID: "nobody"}
	known := preferences.User{Tenant: "opt-outs", ID: "known"}
	optOut := func(u preferences.User, channel, typ string, want bool) {
		t.Helper()
		if changed, _, err := preferences.OptOut(t.Context(), s, u, channel, typ); err != nil || changed != want {
			t.Errorf("%s, %q: changed %v, %v", channel, typ, changed, err)
		}
	}
	sends := func(u preferences.User, channel, typ string) bool {
		t.Helper()
		all, err := s.Get(t.Context(), []preferences.User{u})
		if err != nil {
			t.Fatal(err)
		}
		d := preferences.Due{Channel: channel, Type: typ}
		return all[0].Decide(d, time.Now(), calendar.Embedded()).Outcome == preferences.Send
	}
	optOut(nobody, "email", "", true)
	optOut(nobody, "Email", "", false)
	if sends(nobody, "email", "") || !sends(nobody, "sms", "") {
		t.Error("an opt-out of a user without preferences")
	}
	if err := s.Put(t.Context(), known, &preferences.Preferences{
		Locale: "de", Types: map[string]preferences.Type{"news": {Wanted: true}, "never": {}},
	}); err != nil {
		t.Fatal(err)
	}
	optOut(known, "email", "news", true)
	optOut(known, "email", "news", false)
	optOut(known, "email", "never", false)
	optOut(known, "email", "offers", true)
	if sends(known, "email", "news") || sends(known, "email", "offers") || !sends(known, "email", "bill") ||
		!sends(known, "push", "news") || !sends(known, "email", "") {
		t.Error("an opt-out of a type is one of that type, on that channel")
	}
	if all, err := s.Get(t.Context(), []preferences.User{known}); err != nil || all[0].Locale != "de" {
		t.Errorf("the rest has changed: %+v, %v", all[0], err)
	}
	channels := []string{"push", "sms", "webhook", "other"}
	var all sync.WaitGroup // no opt-out may get lost
	for _, channel := range channels {
		all.Go(func() {
			if _, _, err := preferences.OptOut(t.Context(), s, known, channel, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, channel := range channels {
		if sends(known, channel, "") {
			t.Errorf("%s: the opt-out is lost", channel)
		}
	}
}
