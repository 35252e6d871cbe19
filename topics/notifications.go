package topics

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/trigger"
)

// Notification is what became of one occurrence that was for a user, on each channel.
type Notification struct {
	Tenant, Trigger string
	ID              string // the ce_id without the step
	User            string // "" once it was erased
	CreatedAt       trigger.Instant
	Type            string            // tag type
	Channels        map[string]string // status by channel
	AckedAt         trigger.Instant   // 0: nobody has acknowledged it
	Content         *NotificationContent
}

// Cursor is the notification's place in a list.
func (n *Notification) Cursor() NotificationCursor { return NotificationCursor{n.CreatedAt, n.ID} }

// NotificationContent is what a notification said, as far as its payload says it in fields
// that every channel knows.
type NotificationContent struct {
	Title        string          `json:"title,omitzero"`
	Body         string          `json:"body,omitzero"`
	DeepLink     string          `json:"deep_link,omitzero"`
	TemplateID   string          `json:"template_id,omitzero"`
	TemplateData jsontext.Value  `json:"template_data,omitzero"`
	CreatedAt    trigger.Instant `json:"-"`
}

// NotificationQuery asks for notifications of one user, the newest first.
type NotificationQuery struct {
	Tenant, User string
	From, To     trigger.Instant    // created at or after From, and before To; 0 is no bound
	After        NotificationCursor // exclusive; the zero cursor is before the first
	Limit        int                // 1 to 1000; 0 means 100
	Content      bool               // with what they said
}

// NotificationPage is a page and where the next begins; Next is zero on the last.
type NotificationPage struct {
	Items []Notification
	Next  NotificationCursor
}

// NotificationCursor is a place among a user's notifications.
type NotificationCursor struct {
	CreatedAt trigger.Instant
	ID        string
}

// IsZero reports whether the cursor is before the first notification.
func (c NotificationCursor) IsZero() bool { return c == NotificationCursor{} }

// NotificationID is the id of a trigger's notification: its ce_id without the step.
func NotificationID(triggerKey, occurrence string) string { return triggerKey + "@" + occurrence }

// TriggerOfNotification is the trigger key of an id; ok is false if the text is no id. A
// trigger key may contain an @, an occurrence has none.
func TriggerOfNotification(id string) (key string, ok bool) {
	at := strings.LastIndexByte(id, '@')
	if at < 1 || at == len(id)-1 {
		return "", false
	}
	return id[:at], true
}

// ContentOf reads a payload's content; ok is false if it says nothing that all channels know.
// A field of another kind than expected is passed over, as the payload may be anything.
func ContentOf(payload []byte) (c NotificationContent, ok bool) {
	var fields map[string]jsontext.Value
	lenient := jsontext.AllowDuplicateNames(true)
	if p := bytes.TrimSpace(payload); len(p) == 0 || p[0] != '{' || json.Unmarshal(p, &fields, lenient) != nil {
		return c, false
	}
	text := func(name string) (s string) {
		if v := fields[name]; v.Kind() != '"' || json.Unmarshal(v, &s) != nil {
			return ""
		}
		return s
	}
	c = NotificationContent{
		Title: text("title"), Body: text("body"), DeepLink: text("deep_link"), TemplateID: text("template_id"),
	}
	if data := fields["template_data"]; data.Kind() == '{' {
		c.TemplateData = data.Clone()
		if c.TemplateData.Compact(lenient) != nil {
			c.TemplateData = nil
		}
	}
	return c, c.Title != "" || c.Body != "" || c.DeepLink != "" || c.TemplateID != "" || c.TemplateData != nil
}
