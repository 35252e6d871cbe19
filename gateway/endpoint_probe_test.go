package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/waterclock/waterclock/internal/egress"
)

func TestEndpointTestBodies(t *testing.T) {
	var asked EndpointTest
	w := newWorld(t, func(o *Options) {
		o.Auth = testKeys(t)
		o.TestEndpoint = func(_ context.Context, tenant, url string, send bool) *egress.Report {
			asked = EndpointTest{URL: url, Send: send, Tenant: tenant}
			return &egress.Report{Allowed: true}
		}
	})
	for _, c := range []struct {
		body  string
		want  int
		code  string
		field string
		asked EndpointTest
	}{
		{`{"url":"https://a.example"}`, 200, "", "", EndpointTest{URL: "https://a.example", Tenant: "acme"}},
		{`{"url":"u","send":false}`, 200, "", "", EndpointTest{URL: "u", Tenant: "acme"}},
		{`{"url":"u","send":true,"tenant":"blue"}`, 200, "", "", EndpointTest{URL: "u", Send: true, Tenant: "blue"}},
		{`{"url":"u","send":"yes"}`, 422, "invalid", "send", EndpointTest{}},
		{`{"url":"u","send":1}`, 422, "invalid", "send", EndpointTest{}},
		{`{"url":7}`, 422, "invalid", "url", EndpointTest{}},
		{`{"url":""}`, 422, "invalid", "url", EndpointTest{}},
		{`{}`, 422, "invalid", "url", EndpointTest{}},
		{`{"url":"u","uri":"u"}`, 422, "unknown_field", "uri", EndpointTest{}},
		{`[]`, 400, "malformed", "", EndpointTest{}},
		{`{"url"`, 400, "malformed", "", EndpointTest{}},
	} {
		asked = EndpointTest{}
		a := w.must(c.want, "POST", "/v1/endpoints:test", c.body, "Authorization", "Bearer "+keyO)
		if asked != c.asked || c.want != 200 && (a.get(t, "code") != c.code || a.get(t, "field") != c.field) {
			t.Errorf("%s: asked for %+v, answered %s", c.body, asked, a.body)
		}
	}
}

// Each test holds a connection to somebody else's machine, so there are few at once.
func TestEndpointTestsAtOnce(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	w := newWorld(t, func(o *Options) {
		o.TestEndpoint = func(context.Context, string, string, bool) *egress.Report {
			begun <- struct{}{}
			<-end
			return new(egress.Report)
		}
	})
	var done sync.WaitGroup
	for range testsAtOnce {
		done.Go(func() { w.must(http.StatusOK, "POST", "/v1/endpoints:test", `{"url":"u"}`) })
		<-begun
	}
	a := w.must(http.StatusTooManyRequests, "POST", "/v1/endpoints:test", `{"url":"u"}`)
	if !strings.Contains(a.body, "overloaded") || a.header.Get("Retry-After") == "" {
		t.Errorf("%s %v", a.body, a.header)
	}
	close(end)
	done.Wait()
	go func() { <-begun }()
	w.must(http.StatusOK, "POST", "/v1/endpoints:test", `{"url":"u"}`)
}
