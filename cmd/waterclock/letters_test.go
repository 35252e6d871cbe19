package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A key without a dead letter does not hold up the keys behind it.
func TestRedriveOfSeveralKeys(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Key string `json:"trigger_id"`
		}
		if json.NewDecoder(r.Body).Decode(&body) != nil || strings.HasPrefix(body.Key, "none") {
			problemJSON(w, 404, "not_found", "no dead letter of "+body.Key)
			return
		}
		fmt.Fprintln(w, `{"matched":1,"redriven":1,"done":true}`)
	}))
	defer s.Close()
	r := cli(t, nil, "", "redrive", "k1", "none2", "k3", "none4", "--url", s.URL, "-o", "json", "--jq", ".redriven")
	r.want(t, exitNotFound, "none2", "none4")
	if r.out != "2\n" {
		t.Errorf("redriven %q, want those of the other keys", r.out)
	}
}
