package gateway

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/trigger"
)

func (w *world) forecast(base, query string, header ...string) (f Forecast) {
	w.t.Helper()
	a := w.callAt(base, "GET", "/v1/forecast"+query, "", header...)
	if a.status != http.StatusOK {
		w.t.Fatalf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &f); err != nil {
		w.t.Fatal(err)
	}
	return f
}

// expect makes the pictures of a partition: what is due so much after now.
func (w *world) expect(partition int32, now time.Time, k forecast.Key, jitter time.Duration, ahead ...time.Duration) {
	for i, f := range forecast.Frames {
		b := forecast.NewBuilder(f, now.UnixMilli())
		for _, d := range ahead {
			b.Add(k, now.Add(d).UnixMilli(), now.Add(d+jitter).UnixMilli())
		}
		w.engine.expects[partition][i] = b.Picture()
	}
}

// Every instance joins the pictures of all owners.
func TestForecast(t *testing.T) {
	now := time.Now() // before the other pictures are made
	w, urls, _ := newCluster(t)
	w.expect(0, now, forecast.Key{Tenant: "a", Channel: "push", Priority: "high"}, 0, time.Minute, 5*time.Hour)
	low := forecast.Key{Tenant: "b", Channel: "sms", Priority: "low"}
	w.expect(1, now.Add(-time.Millisecond), low, time.Hour, time.Minute, -3*time.Hour)
	for i, u := range urls {
		f := w.forecast(u, "?bucket=1h&n=6&by=channel")
		var nominal, due, sms int64
		for j, b := range f.Items {
			nominal, due, sms = nominal+b.Nominal, due+b.Due, sms+b.By["sms"]
			hours := time.Duration(j) * time.Hour // an hour may end while we ask
			from, through := now.Truncate(time.Hour).Add(hours), time.Now().Truncate(time.Hour).Add(hours)
			if at, err := time.Parse(time.RFC3339, b.At); err != nil || !at.Equal(from) && !at.Equal(through) {
				t.Errorf("instance %d: bucket %d begins at %s, %v", i, j, b.At, err)
			}
		}
		if len(f.Items) != 6 || nominal != 4 || due != 4 || sms != 2 || len(f.Silent) != 0 ||
			f.AsOf != trigger.At(now.Add(-time.Millisecond)).String() {
			t.Errorf("instance %d: nominal %d, due %d, sms %d: %+v", i, nominal, due, sms, f)
		}
		if f := w.forecast(u, ""); len(f.Items) != 120 {
			t.Errorf("instance %d: %d minutes", i, len(f.Items))
		}
	}
	for _, bad := range []string{"?bucket=1d", "?n=0", "?n=121", "?bucket=1h&n=2161", "?by=user", "?by=", "?x=1"} {
		w.must(http.StatusBadRequest, "GET", "/v1/forecast"+bad, "")
	}
	if f := w.forecast(w.url, "?bucket=1h&n=2160"); len(f.Items) != 2160 {
		t.Errorf("%d hours", len(f.Items))
	}
}

// A partition that has no picture yet is named; while none has one, the answer is 503.
func TestForecastOfASilentPartition(t *testing.T) {
	w := newWorld(t, nil)
	w.expect(0, time.Now(), forecast.Key{Tenant: "a", Channel: "push"}, 0, time.Minute)
	w.engine.expects[2] = [2]*forecast.Picture{}
	f := w.forecast(w.url, "?bucket=1h&n=2")
	if len(f.Silent) != 1 || f.Silent[0] != 2 || f.Items[0].Due+f.Items[1].Due != 1 {
		t.Errorf("%+v", f)
	}
	w.engine.set(func() { clear(w.engine.expects[:]) })
	a := w.call("GET", "/v1/forecast", "")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "counted") {
		t.Errorf("of nobody: %d %s", a.status, a.body)
	}
}

// A tenant sees its own; an operator sees all, and whose it is.
func TestForecastOfTenants(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	w.expect(0, time.Now(), forecast.Key{Tenant: "acme", Channel: "secret"}, 0, time.Minute)
	w.expect(1, time.Now(), forecast.Key{Tenant: "blue", Channel: "push"}, 0, time.Minute)
	for key, want := range map[string][]string{
		keyA: {"acme"}, keyR: {"acme"}, keyB: {"blue"}, keyD: nil, keyO: {"acme", "blue"},
	} {
		sum, by := int64(0), map[string]int64{}
		for _, b := range w.forecast(w.url, "?bucket=1h&n=2&by=tenant", "Authorization", "Bearer "+key).Items {
			sum += b.Due
			for tenant, n := range b.By {
				by[tenant] += n
			}
		}
		if sum != int64(len(want)) || len(by) != len(want) {
			t.Errorf("%s sees %d, of %v", key, sum, by)
		}
		for _, tenant := range want {
			if by[tenant] != 1 {
				t.Errorf("%s sees %v", key, by)
			}
		}
	}
}

// Ninety days by the hour are small on their way to whoever takes gzip, and the same for everybody.
func TestForecastIsCompressed(t *testing.T) {
	w := newWorld(t, nil)
	w.expect(0, time.Now(), forecast.Key{Tenant: "a", Channel: "push"}, 0, time.Minute)
	ask := func(query, encoding string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/forecast"+query, nil)
		r.Host = "localhost"
		r.Header.Set("Accept-Encoding", encoding)
		out := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(out, r)
		if out.Code != http.StatusOK || out.Header().Get("Vary") != "Accept-Encoding" {
			t.Fatalf("%s: %d %v", query, out.Code, out.Header())
		}
		return out
	}
	const all = "?bucket=1h&n=2160&by=channel"
	plain, small := ask(all, "identity"), ask(all, "gzip, br")
	if small.Header().Get("Content-Encoding") != "gzip" || small.Body.Len() > 20<<10 {
		t.Fatalf("%d bytes, %v", small.Body.Len(), small.Header())
	}
	z, err := gzip.NewReader(small.Body)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(z); err != nil || string(b) != plain.Body.String() {
		t.Errorf("it differs when it is compressed: %v", err)
	}
	if refused := ask(all, "gzip;q=0"); refused.Body.String() != plain.Body.String() {
		t.Errorf("who refuses gzip gets %v", refused.Header())
	}
	if short := ask("?bucket=1h&n=1", "gzip"); short.Header().Get("Content-Encoding") != "" {
		t.Error("a short answer is compressed")
	}
}
