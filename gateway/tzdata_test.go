package gateway

import (
	"archive/zip"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/topics"
)

// The release in force is the last one applied, and what the embedded one would change is
// named zone by zone.
func TestTZData(t *testing.T) {
	now := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	own := calendar.Embedded()
	a := w.must(http.StatusOK, "GET", "/v1/tzdata", "")
	if a.get(t, "same") != "true" || a.get(t, "ahead") != "false" || !strings.Contains(a.body, `"changes":[]`) ||
		!strings.Contains(a.body, `"active":{"label":"`+own.Release()+`"`) || strings.Contains(a.body, "since") {
		t.Errorf("none was applied: %s", a.body)
	}
	w.applyTZ(t, topics.TZData{Label: "2020a", Zip: berlinLikeTokyo(t)})
	a = w.must(http.StatusOK, "GET", "/v1/tzdata", "")
	if a.get(t, "same") != "false" || a.get(t, "ahead") != "true" ||
		!strings.Contains(a.body, `"changes":[{"zone":"Europe/Berlin","what":"changed","from":"2026-11-25T00:00:00.000Z"}]`) ||
		!strings.Contains(a.body, `"active":{"label":"2020a"`) || !strings.Contains(a.body, `"since":"`) {
		t.Errorf("one was applied: %s", a.body)
	}
	w.applyTZ(t, topics.TZData{Label: "2099z", Zip: berlinLikeTokyo(t)})
	if a := w.must(http.StatusOK, "GET", "/v1/tzdata", ""); a.get(t, "ahead") != "false" ||
		!strings.Contains(a.body, `"label":"2099z"`) {
		t.Errorf("the release in force is newer: %s", a.body)
	}
	w.applyTZ(t, topics.TZData{Label: own.Release(), Zip: calendar.EmbeddedZip()})
	if a := w.must(http.StatusOK, "GET", "/v1/tzdata", ""); a.get(t, "same") != "true" ||
		!strings.Contains(a.body, `"changes":[]`) {
		t.Errorf("the same was applied: %s", a.body)
	}
}

// Clocks that change within 14 days are named, by the release in force, and later ones are not.
func TestClockChanges(t *testing.T) {
	now := time.Date(2027, 3, 10, 0, 0, 0, 0, time.UTC)
	w := newWorld(t, func(o *Options) { o.Now = func() time.Time { return now } })
	a := w.must(http.StatusOK, "GET", "/v1/tzdata", "").body
	for _, want := range []string{
		`"clock_changes":[{"at":"2027-03-14T`, `{"at":"2027-03-14T07:00:00.000Z","shift_seconds":3600,"zones":[`,
		`"America/New_York"`,
	} {
		if !strings.Contains(a, want) {
			t.Errorf("no %s in %s", want, a)
		}
	}
	if strings.Contains(a, "Europe/Berlin") {
		t.Errorf("Berlin changes on the 28th: %s", a)
	}
	now = now.Add(7 * 24 * time.Hour)
	if a := w.must(http.StatusOK, "GET", "/v1/tzdata", "").body; strings.Contains(a, "America/New_York") ||
		!strings.Contains(a, `{"at":"2027-03-28T01:00:00.000Z","shift_seconds":3600,"zones":[`) {
		t.Errorf("a week later: %s", a)
	}
	w.applyTZ(t, topics.TZData{Label: "2099z", Zip: berlinLikeTokyo(t)})
	_, a, _ = strings.Cut(w.must(http.StatusOK, "GET", "/v1/tzdata", "").body, `"clock_changes"`)
	if strings.Contains(a, "Europe/Berlin") || !strings.Contains(a, "Europe/Paris") {
		t.Errorf("by the release in force Berlin changes nothing: %s", a)
	}
}

func (w *world) applyTZ(t *testing.T, release topics.TZData) {
	t.Helper()
	key, value, headers, err := topics.EncodeTZData(release)
	if err != nil {
		t.Fatal(err)
	}
	rec := &kgo.Record{Topic: topics.Names{}.Control(), Key: key, Value: value}
	for _, h := range headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// berlinLikeTokyo is the embedded release with the clocks of Tokyo in Berlin.
func berlinLikeTokyo(t *testing.T) []byte {
	t.Helper()
	blob := calendar.EmbeddedZip()
	from, err := zip.NewReader(bytes.NewReader(blob), int64(len(blob)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	to := zip.NewWriter(&out)
	for _, f := range from.File {
		name := f.Name
		if name == "Europe/Berlin" {
			f, err = fileIn(from, "Asia/Tokyo")
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		one, err := to.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(one, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func fileIn(z *zip.Reader, name string) (*zip.File, error) {
	for _, f := range z.File {
		if f.Name == name {
			return f, nil
		}
	}
	return nil, io.EOF
}
