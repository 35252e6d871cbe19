package preferences

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/topics"
)

// Salvage reads the readable parts of a document that Parse refuses: each member, list item and
// notification type by itself. If in doubt, less is sent. A notification type whose value cannot
// be read is unwanted. If opted_out_channels or notification_types as a whole cannot be read, the
// user is opted out of push, sms and email.
func Salvage(document []byte) *Preferences {
	p := &Preferences{}
	var all map[string]jsontext.Value
	if !readable(document, &all) {
		p.OptedOut = slices.Clone(topics.NotificationChannels)
		return p
	}
	var whole bool
	p.OptedOut, whole = namesIn(all["opted_out_channels"])
	if !p.salvageTypes(all["notification_types"]) || !whole {
		p.refuseAll()
	}
	p.Preferred, _ = namesIn(all["preferred_channels"])
	p.Locale, p.Zone = textOf(all["locale"]), textOf(all["timezone"])
	var quiet QuietDocument
	if p.Zone != "" && readable(all["quiet_hours"], &quiet) {
		p.Quiet, _ = quiet.read() // nil after an error
	}
	var addresses map[string]jsontext.Value
	readable(all["addresses"], &addresses)
	p.Addresses.SMS, p.Addresses.Email = textOf(addresses["sms"]), textOf(addresses["email"])
	var tokens []PushDocument
	if readable(addresses["push"], &tokens) {
		p.Addresses.Push = (&Document{Addresses: AddressDocument{Push: tokens}}).addresses().Push
	}
	return p
}

// refuseAll opts the user out of push, sms and email.
func (p *Preferences) refuseAll() {
	for _, channel := range topics.NotificationChannels {
		if !slices.Contains(p.OptedOut, channel) {
			p.OptedOut = append(p.OptedOut, channel)
		}
	}
}

// salvageTypes returns false if the notification types are not an object.
func (p *Preferences) salvageTypes(v jsontext.Value) bool {
	if v == nil {
		return true
	}
	var types map[string]jsontext.Value
	if !readable(v, &types) {
		return false
	}
	for name, v := range types {
		var t TypeValue
		if !readable(v, &t) {
			t = TypeValue{}
		}
		p.setType(name, t.Type)
	}
	return true
}

// namesIn returns the strings in a list. whole is false if an item is not a string, or if v is
// not a list.
func namesIn(v jsontext.Value) (names []string, whole bool) {
	if v == nil {
		return nil, true
	}
	var items []jsontext.Value
	if !readable(v, &items) {
		return nil, false
	}
	whole = true
	for _, item := range items {
		name := textOf(item)
		if name == "" {
			whole = false
			continue
		}
		names = append(names, channelName(name))
	}
	return names, whole
}

func textOf(v jsontext.Value) (text string) {
	if v != nil && !readable(v, &text) {
		return ""
	}
	return text
}

// readable decodes leniently: it accepts repeated names and invalid UTF-8.
func readable(v []byte, into any) bool {
	err := json.Unmarshal(v, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return len(v) > 0 && err == nil
}
