package topics

import (
	"math/bits"
	"strings"

	"github.com/waterclock/waterclock/internal/near"
	"github.com/waterclock/waterclock/trigger"
)

// To add a field, begin at 1_commands_table.go.

// field is a field of a command, as an index into fieldTable. Scalars come first, so that an
// array can hold their texts.
type field uint8

const (
	fOp field = iota
	fChannel
	fUserID
	fDelay
	fFireAt
	fTimezone
	fRecurrence
	fStart
	fUntil
	fCount
	fTargetKey
	fPriority
	fJitter
	fExpiresAfter
	fMisfire
	fFollowUser
	fCorrelationID
	fIfRevision
	fIfAbsent
	fIdempotencyKey
	fFor
	fOccurrence
	fNote
	fActor
	fDueID
	fAttempt
	fScheduledAt
	fLocalTime
	fExpiresAt
	fFirstFiredAt
	fRevision
	fPayloadBase64
	fGap
	fOverlap
	fOn
	fURL
	fTimeout
	fBody
	fRecheck
	scalarCount
)

const (
	fPayload field = scalarCount + iota
	fHeaders
	fTags
	fInclude
	fExclude
	fDST
	fCalendars
	fCallback
	fRetry
	fNames
	fEscalation
	fieldCount
)

// fieldKind says which JSON a field takes.
type fieldKind uint8

const (
	kindText   fieldKind = iota // a string
	kindTime                    // a string, or a number standing for its digits
	kindNumber                  // a number
	kindBool
	kindPart // an object, a list, or the payload
)

// path names a field in an error. For a field of an object it is the object's name: callback
// for callback.timeout.
func (f field) path() string {
	if owner := fieldTable[f].owner; owner != 0 {
		return fieldTable[owner].name
	}
	return fieldTable[f].name
}

// fieldSet is a set of fields.
type fieldSet uint64

func setOf(fs ...field) (s fieldSet) {
	for _, f := range fs {
		s |= 1 << f
	}
	return s
}

func (s fieldSet) has(f field) bool { return s&(1<<f) != 0 }
func (s fieldSet) first() field     { return field(bits.TrailingZeros64(uint64(s))) }

func (s *fieldSet) set(f field, to bool) {
	if to {
		*s |= 1 << f
	}
}

// indexFields makes an index of fields by their object (fOp for the top) and name.
func indexFields() map[field]map[string]field {
	index := make(map[field]map[string]field)
	for f, def := range fieldTable {
		if index[def.owner] == nil {
			index[def.owner] = make(map[string]field)
		}
		index[def.owner][def.name] = field(f)
	}
	return index
}

// indexHeaders makes an index of fields by header. Each scalar at the top has a header, and
// so has the callback's URL. The payload is the record's value.
func indexHeaders() map[string]field {
	index := map[string]field{"wc-callback-url": fURL}
	for f, def := range fieldTable {
		if def.owner == 0 && field(f) < scalarCount && field(f) != fPayloadBase64 {
			index[headerName(def.name)] = field(f)
		}
	}
	return index
}

func headerName(name string) string {
	return commandPrefix + strings.ReplaceAll(name, "_", "-")
}

// otherNames are what other products call our fields.
var otherNames = map[string]string{
	"at": "fire_at", "when": "fire_at", "run_at": "fire_at", "scheduled_at": "fire_at", "in": "delay", "after": "delay",
	"delay_seconds": "delay", "delayseconds": "delay", "fireat": "fire_at", "callback_url": "callback",
	"callbackurl": "callback",
	"url":         "callback", "webhook": "callback", "tz": "timezone", "time_zone": "timezone", "zone": "timezone",
	"rrule": "recurrence", "cron": "recurrence", "rule": "recurrence", "schedule": "recurrence", "every": "recurrence",
	"repeat": "recurrence", "data": "payload", "body": "payload", "message": "payload", "value": "payload",
	"end":    "until",
	"exdate": "exclude", "rdate": "include", "ttl": "expires_after", "user": "user_id", "labels": "tags",
}

// unknown is the message about an unknown name, with the nearest known one. Names come from
// outside, so only their beginning is compared and repeated.
func unknown(what, name string, known []string) string {
	name = clip(name, 48)
	msg := quoteForPerson(name) + " is no " + what
	return msg + near.Hint(name, known)
}

// unknownOp is the message about an unknown op. It lists all ops, the nearest first.
func unknownOp(name string) string {
	name = clip(name, 48)
	known := near.Sorted(name, trigger.OpNames())
	list := "; the ops are "
	if _, ok := near.Name(name, known); ok {
		list = " The ops are "
	}
	return unknown("op", name, known) + list + strings.Join(known, ", ")
}

func quoteForPerson(s string) string { return string(appendString(nil, s)) }

// unknownField refuses a field of an object. For the top (owner fOp) the advice is added
// later, when the op is known.
func (d *draft) unknownField(owner field, name string) {
	if owner == fOp {
		if d.err == nil {
			d.unknown = &name
		}
		d.refuse(trigger.CodeUnknownField, clip(name, 64), "")
		return
	}
	var known []string
	for _, def := range fieldTable {
		if def.owner == owner {
			known = append(known, def.name)
		}
	}
	d.refuse(trigger.CodeUnknownField, fieldTable[owner].name+"."+clip(name, 64), unknown("field", name, known))
}

// describeUnknown is the message about a field that the op does not have, with the op's
// nearest field.
func describeUnknown(name string, op trigger.Op) string {
	if other := otherNames[strings.ToLower(name)]; other != "" && fieldsOf[op].has(fieldsByName[fOp][other]) {
		return quoteForPerson(name) + " is no field; did you mean " + other + "?"
	}
	if name == "id" || name == "key" || name == "trigger_id" {
		return quoteForPerson(name) + " is no field: the trigger's id is the record's key"
	}
	var known []string
	for f, def := range fieldTable {
		if def.owner == fOp && (fieldsOf[op] &^ setOf(fOp, fActor)).has(field(f)) {
			known = append(known, def.name)
		}
	}
	return unknown("field", name, known)
}
