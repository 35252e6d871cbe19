package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/waterclock/waterclock/trigger"
)

// Audit is a record on topic audit: an act over HTTP, or a refused attempt
// (docs/formats/audit.md). The record key is the tenant.
type Audit struct {
	At      trigger.Instant // the gateway's clock, when the answer was known
	Actor   string          // the name of the API key, or the subject of the token; "" where no log-in is needed
	Role    string          // of the caller; several with ", "
	Address string          // of the caller, or of the proxy in front
	Agent   string          // its User-Agent
	Verb    string          // an op, or the operation of the OpenAPI document: put_calendar
	Trigger trigger.Key     // "" if the act is about no single trigger
	Target  string          // what else it is about: calendars/us-holidays
	Tenant  string          // of the caller; "" for one without a valid credential
	Note    string          // why, as the caller says
	Status  int             // of the answer
}

// auditJSON has the order and the names of the fields.
type auditJSON struct {
	At      string      `json:"at"`
	Actor   string      `json:"actor"`
	Role    string      `json:"role"`
	Address string      `json:"address"`
	Agent   string      `json:"agent"`
	Verb    string      `json:"verb"`
	Trigger trigger.Key `json:"trigger,omitempty"`
	Target  string      `json:"target,omitempty"`
	Tenant  string      `json:"tenant"`
	Note    string      `json:"note,omitempty"`
	Status  int         `json:"status"`
}

// Bounds of the texts that callers choose, in bytes.
const (
	maxAuditAgent  = 256
	maxAuditTarget = 512
)

// Key is the record key.
func (a *Audit) Key() []byte { return []byte(a.Tenant) }

// Value is the record's value. Texts that are too long are cut.
func (a *Audit) Value() []byte {
	b, err := json.Marshal(auditJSON{
		a.At.String(), clip(a.Actor, maxText), clip(a.Role, maxText), clip(a.Address, maxText),
		clip(a.Agent, maxAuditAgent), clip(a.Verb, maxText), trigger.Key(clip(string(a.Trigger), trigger.MaxKeyBytes)),
		clip(a.Target, maxAuditTarget), a.Tenant, clip(a.Note, maxNote), a.Status,
	})
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

// maxAuditBytes bounds a record that is read: its texts, each byte of them escaped.
const maxAuditBytes = 32 << 10

// DecodeAudit reads a record. It ignores fields of later versions.
func DecodeAudit(key, value []byte) (*Audit, error) {
	if len(value) > maxAuditBytes {
		return nil, errors.New("decode audit: it is too large")
	}
	var in auditJSON
	d := json.NewDecoder(bytes.NewReader(value))
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("decode audit: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("decode audit: something follows the object")
	}
	if in.Tenant != string(key) {
		return nil, fmt.Errorf("decode audit: the key is %q, the tenant %q", key, in.Tenant)
	}
	a := &Audit{
		Actor: in.Actor, Role: in.Role, Address: in.Address, Agent: in.Agent, Verb: in.Verb, Trigger: in.Trigger,
		Target: in.Target, Tenant: in.Tenant, Note: in.Note, Status: in.Status,
	}
	var err error
	if a.At, err = parseMillis("at", in.At); err != nil {
		return nil, fmt.Errorf("decode audit: %w", err)
	}
	return a, nil
}
