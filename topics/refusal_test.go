package topics

import (
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

func TestRefused(t *testing.T) {
	want := Refusal{Code: trigger.CodeNotFound, Actor: "svc", Detail: "another tenant's trigger: GET /v1/triggers/{id}"}
	rec := want.Record("blue/acme/t")
	if got, ok := Refused(&rec); !ok || got != want || string(rec.Key) != "blue/acme/t" {
		t.Errorf("read back %+v, %v", got, ok)
	}
	if text := string(rec.Value); text != `{"actor":"svc","detail":"another tenant's trigger: GET /v1/triggers/{id}"}` {
		t.Errorf("value %s", text)
	}
	long := Refusal{Code: "x", Actor: strings.Repeat("a", 300), Detail: strings.Repeat("d", 2000)}.Record("k")
	if got, ok := Refused(&long); !ok || len(got.Actor) != maxText || len(got.Detail) != maxErrorDetail {
		t.Errorf("long: %d and %d bytes, %v", len(got.Actor), len(got.Detail), ok)
	}
	for name, r := range map[string]Record{
		"none":     {Value: []byte(`{"op":"cancel"}`)},
		"no code":  {Headers: []trigger.Header{header(headerRefused, "")}},
		"garbled":  {Headers: []trigger.Header{header(headerRefused, "Not Found\n")}},
		"too long": {Headers: []trigger.Header{header(headerRefused, strings.Repeat("a", 41))}},
	} {
		if got, ok := Refused(&r); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, value := range []string{"", "{", "\xff", `{"actor":1}`, "[]", strings.Repeat("x", 1<<20)} {
		r := Record{Value: []byte(value), Headers: []trigger.Header{header(headerRefused, "not_found")}}
		if got, ok := Refused(&r); !ok || got.Code != trigger.CodeNotFound || got.Actor != "" {
			t.Errorf("%.20q: %+v, %v", value, got, ok)
		}
	}
}
