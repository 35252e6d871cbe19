package topics

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

func TestSmoke(t *testing.T) {
	show := func(rec *Record) {
		rec.Key = []byte("hold-8c4")
		rec.Timestamp = 1790000000000
		c, err := DecodeCommand(rec, Limits{}, nil)
		if err != nil {
			fmt.Println("ERR", err)
			return
		}
		fmt.Printf("%+v\n", *c)
		if c.Spec != nil {
			fmt.Printf("   %+v\n", *c.Spec)
		}
	}
	show(&Record{Value: []byte(`{"op":"register","channel":"push","user_id":"u_81",
 "start":"2026-11-20T09:00","timezone":"America/New_York",
 "recurrence":"RRULE:FREQ=WEEKLY;BYDAY=MO,WE","exclude":["2026-12-25"],
 "payload":{"title":"Take pills"}}`)})
	show(&Record{Value: []byte(`{"holdId":"h_8c4"}`), Headers: []trigger.Header{header("wc-delay", "7m"), header("wc-channel", "orders")}})
	show(&Record{Value: []byte(`cancel`), Headers: []trigger.Header{header("wc-op", "cancel")}})
	show(&Record{Value: []byte(`{"op":"register","dealy":"7m"}`)})
	show(&Record{Value: []byte(`{"dealy":"7m"}`)})
	show(&Record{Value: []byte(`{"op":"regster","dealy":"7m"}`)})
	show(&Record{})
	show(&Record{Value: []byte(`{"op":"register","fire_at":1800000000,"payload":3} x`)})
}
