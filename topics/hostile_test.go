package topics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// What one record says is read in time that grows with its size and no faster:
// one megabyte of headers once took half a minute, in which the partition stood.
func TestReadingIsLinear(t *testing.T) {
	object := func(field string, n int, item func(int) string) []byte {
		var b strings.Builder
		b.WriteString(`{"op":"register","delay":"1m",` + field)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(item(i))
		}
		return []byte(b.String() + "}}")
	}
	const n = 100_000
	var given []trigger.Header
	for i := range n {
		given = append(given, trigger.Header{Key: fmt.Sprintf("h%d", i), Value: []byte{}})
	}
	few := object(`"headers":{`, 64, func(i int) string { return fmt.Sprintf(`"b%d":""`, i) })
	for name, rec := range map[string]*Record{
		"headers": {Value: object(`"headers":{`, n,
			func(i int) string { return fmt.Sprintf(`"h%d":""`, i) })},
		"headers, all wrong": {Value: object(`"headers":{`, n, func(i int) string { return `"wc-x":""` })},
		"the same header":    {Value: object(`"headers":{`, n, func(i int) string { return `"a":""` })},
		"tags":               {Value: object(`"tags":{`, n, func(i int) string { return fmt.Sprintf(`"h%d":""`, i) })},
		"unknown fields": {Value: object(`"dst":{`, n,
			func(i int) string { return fmt.Sprintf(`"overlapping%d":""`, i) })},
		"unknown at the top": {Value: object(`"dst":{},"x":{"a":1},`, n,
			func(i int) string { return fmt.Sprintf(`"overlapping%d":""`, i) })},
		"record headers":  {Value: []byte(`{"op":"register","delay":"1m"}`), Headers: given},
		"headers in both": {Value: few, Headers: given},
		"wc- headers": {Value: []byte(""), Headers: append([]trigger.Header{{
			Key:   "wc-delay",
			Value: []byte("1m"),
		}}, given...)},
		"unknown wc- headers": {Value: []byte(""), Headers: unknownHeaders(n)},
	} {
		rec.Key, rec.Topic = []byte("k"), "waterclock.commands"
		begin := time.Now()
		_, err := DecodeCommand(rec, Limits{}, nil)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("%s: %s", name, took)
		}
		if err == nil {
			t.Errorf("%s: taken", name)
		}
		OpOf(rec, Limits{})
	}
}

func unknownHeaders(n int) (list []trigger.Header) {
	for i := range n {
		list = append(list, trigger.Header{Key: fmt.Sprintf("wc-overlapping%d", i)})
	}
	return list
}

// Names that end in .high are lanes: such a channel's topic would be another's lane,
// and its due events would reach that channel's workers.
func TestLaneIsNoChannel(t *testing.T) {
	for _, name := range []string{"webhook.high", "orders.high", "a.high.high"} {
		rec := &Record{Key: []byte("k"), Value: []byte(`{"op":"register","delay":"1m","channel":"` + name + `"}`)}
		if c, err := DecodeCommand(rec, Limits{}, nil); err == nil || ValidChannel(name) {
			t.Errorf("%s is taken: its topic is %s, and %s", name, Names{}.Due(c.Spec.Channel),
				HighLane(Names{}.Due(strings.TrimSuffix(name, ".high"))))
		}
	}
	for _, name := range []string{"high", "a.highs", "a-high", "a.high.b"} {
		if !ValidChannel(name) {
			t.Errorf("%s is refused", name)
		}
	}
}

// A date that the engine does not know is refused where the calendar is put: it
// was taken, and no partition ever used the calendar.
func TestCalendarOfNoYear(t *testing.T) {
	if _, _, err := EncodeCalendar(Calendar{Name: "x", Dates: []string{"0000-01-01"}}); err == nil {
		t.Error("year 0 is taken")
	}
	if _, err := DecodeSetting(&Record{
		Key:   []byte("calendar/x"),
		Value: []byte(`{"dates":["0000-01-01"]}`),
	}); err == nil {
		t.Error("year 0 is read")
	}
}

// A refusal has one of the contract's codes: metrics count by it, and each new one
// would be a new series in every process for ever.
func TestRefusalOfNoCode(t *testing.T) {
	for _, code := range []trigger.Code{"aaaa", "aaab", "not_foundd"} {
		rec := Refusal{Code: code, Detail: "why"}.Record("k")
		if got, ok := Refused(&rec); !ok || got.Code != trigger.CodeInvalid ||
			got.Detail != "refused as "+string(code)+": why" {
			t.Errorf("%s: %+v %t", code, got, ok)
		}
	}
}
