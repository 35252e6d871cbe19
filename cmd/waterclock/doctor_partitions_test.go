package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDoctorOnPartitions: the doctor reports who fires, how far restores are, and who could take
// over, from the API's answer.
func TestDoctorOnPartitions(t *testing.T) {
	_, brokers := kafka(t)
	applied(t, brokers)
	for _, c := range []struct{ answer, want string }{
		{
			`{"items":[{"partition":0,"owner":"a:1","ready":true},{"partition":1,"owner":"b:1","ready":true}]}`,
			"2 partitions fire, shared by 2 owners",
		},
		{`{"items":[{"partition":0,"owner":"a:1","ready":true},{"partition":1,"owner":"b:1","doing":"restore","restored":10,"restore_total":50}]}`, "1 partition of 2 not firing: 1 (restore, 10 of 50 records)"},
		{
			`{"items":[{"partition":0,"owner":"a:1","ready":true,"standbys":[{"node":"b:1","lag":3,"warm":true}]}]}`,
			"every partition has a warm standby, at most 3 records behind",
		},
		{
			`{"items":[{"partition":0,"owner":"a:1","ready":true,"standbys":[{"node":"b:1","lag":300000}]}]}`,
			"0 of 1 partition have a warm standby",
		},
		{`{"items":[{"partition":0,"owner":""}]}`, "0 (no owner)"},
		{
			`{"items":[{"partition":0,"owner":"a:1","doing":"lost","restored":9,"restore_total":9},{"partition":1,"owner":"a:1","doing":"lost","restored":8,"restore_total":9}]}`,
			"2 partitions of 2 not firing: 0, 1 (a:1 lost)",
		},
		{
			`{"items":[{"partition":0,"ready":true,"pending":1100,"pending_limit":1000},{"partition":1,"ready":true,"pending":801,"pending_limit":1000}]}`,
			"1 partition of 2 at limits.max_pending, refusing registers: 0. See WaterclockPendingNearLimit",
		},
		{
			`{"items":[{"partition":0,"ready":true,"pending":800,"pending_limit":1000},{"partition":1,"ready":true,"pending":801,"pending_limit":1000}]}`,
			"1 partition of 2 above 80 % of limits.max_pending: 1.",
		},
		{"hangs up", "does not list its partitions"},
		{
			"forbidden",
			"for this caller. Set an operator's key in WATERCLOCK_API_KEY, or as api_key in the settings file",
		},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/partitions" && c.answer == "hangs up" {
				panic(http.ErrAbortHandler)
			}
			if r.URL.Path == "/v1/partitions" && c.answer == "forbidden" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			if r.URL.Path == "/v1/partitions" {
				fmt.Fprint(w, c.answer)
				return
			}
			fmt.Fprintln(w, "ready")
		}))
		doctorOf(t, brokers, "--url", s.URL).want(t, exitOK, c.want)
		s.Close()
	}
}
