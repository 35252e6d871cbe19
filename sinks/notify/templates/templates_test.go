package templates_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/sinks/notify/templates"
)

// directory makes a directory with files by name.
func directory(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func load(t testing.TB, files map[string]string) *templates.Set {
	t.Helper()
	s, err := templates.Load(directory(t, files))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const pills = `{{ define "title" }}Pills for {{ .Data.name }}{{ end }}
{{ define "body" }}
Take {{ .Data.count }} at {{ .LocalTime.Clock }}.
{{ end }}
{{ define "html" }}<p title="{{ .Data.name }}">Take {{ .Data.count }}</p><a href="{{ .Data.link }}">x</a>{{ end }}
{{ define "deep_link" }}app://pills/{{ .Trigger }}{{ end }}`

func input() templates.Input {
	local, _ := templates.ParseLocalTime("2026-11-20T09:00:00[America/New_York]")
	return templates.Input{
		Channel: "email", Trigger: "pills-1", LocalTime: local,
		Data: map[string]any{"name": `<Ada> "x"`, "count": 2.0, "link": "javascript:alert(1)"},
	}
}

func TestRender(t *testing.T) {
	s := load(t, map[string]string{"pills.tmpl": pills, "README.md": "{{ not a template"})
	got, err := s.Render("pills", input())
	if err != nil {
		t.Fatal(err)
	}
	want := templates.Text{
		Title: `Pills for <Ada> "x"`, Body: "Take 2 at 09:00.", DeepLink: "app://pills/pills-1",
		HTML: `<p title="&lt;Ada&gt; &#34;x&#34;">Take 2</p><a href="#ZgotmplZ">x</a>`,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A number is shown as it is written, and formatted as a number, however it is written.
func TestNumbers(t *testing.T) {
	for _, c := range []struct{ number, body, want string }{
		{`7`, ``, "7"},
		{`1234567.89`, ``, "1234567.89"},
		{`12.50`, ``, "12.50"},
		{`0.00`, ``, "0.00"},
		{`-0.5`, ``, "-0.5"},
		{`1.100000`, ``, "1.100000"},
		{`0.30000000000000004`, ``, "0.30000000000000004"},
		{`0.12345678901234567890`, ``, "0.12345678901234567890"},
		{`12345678901234567890`, ``, "12345678901234567890"},
		{`1.23456789E7`, ``, "12345678.9"},
		{`1e300`, ``, "1e300"},
		{`1e400`, ``, "1e400"},
		{`1e-400`, ``, "1e-400"},
		{
			`12.50`, `{{ print .Data.n }}/{{ printf "%v/%s/%8v" .Data.n .Data.n .Data.n }}`,
			"12.50/12.50/12.50/   12.50",
		},
		{`7`, `{{ print .Data.n }}/{{ printf "%v/%s/%03v" .Data.n .Data.n .Data.n }}`, "7/7/7/007"},
		{`50`, `{{ printf "%.2f" .Data.n }}`, "50.00"},
		{`50.00`, `{{ printf "%.1f" .Data.n }}`, "50.0"},
		{`49.9`, `{{ printf "%.2f" .Data.n }}`, "49.90"},
		{`9007199254740993`, `{{ printf "%.2f" .Data.n }}`, "9007199254740993.00"},
		{
			`12345678901234567890`, `{{ printf "%.2f/%d" .Data.n .Data.n }}`,
			"12345678901234567890.00/12345678901234567890",
		},
		{`1e3`, `{{ printf "%d/%.1f/%05d" .Data.n .Data.n .Data.n }}`, "1000/1000.0/01000"},
		{`2.0`, `{{ printf "%d" .Data.n }}`, "2"},
		{`1e400`, `{{ printf "%.2f" .Data.n }}`, "1e400"},
		{`1e-400`, `{{ printf "%.2f" .Data.n }}`, "0.00"},
		{`0`, `{{ if .Data.n }}yes{{ else }}no{{ end }} {{ default "none" .Data.n }}`, "no none"},
		{`0.00`, `{{ if .Data.n }}yes{{ else }}no{{ end }}`, "no"},
		{`0.000000`, `{{ if .Data.n }}yes{{ else }}no{{ end }}`, "no"},
		{`2`, `{{ if eq .Data.n 2 }}two{{ end }}{{ range .Data.n }}x{{ end }}{{ index .Data.list .Data.n }}`, "twoxx9"},
		{`2.50`, `{{ if lt .Data.n 3.5 }}less{{ end }}`, "less"},
		{`1e3`, `{{ if gt .Data.n 3.5 }}more{{ end }}`, "more"},
	} {
		if c.body == "" {
			c.body = `{{ .Data.n }}`
		}
		data, err := templates.Data([]byte(`{"n":` + c.number + `,"list":[1,2,9]}`))
		if err != nil {
			t.Fatal(err)
		}
		s := load(t, map[string]string{"a.tmpl": `{{ define "body" }}` + c.body + `{{ end }}{{ define "html" }}<p>` +
			c.body + `</p>{{ end }}`})
		got, err := s.Render("a", templates.Input{Channel: "email", Data: data})
		if err != nil || got.Body != c.want || got.HTML != "<p>"+c.want+"</p>" {
			t.Errorf("%s in %s: %q, %q, %v; want %q", c.number, c.body, got.Body, got.HTML, err, c.want)
		}
	}
}

// The fallback follows RFC 4647, 3.4.
func TestLocales(t *testing.T) {
	file := func(text string) string { return `{{ define "body" }}` + text + `{{ end }}` }
	s := load(t, map[string]string{
		"a.tmpl": file("default"), "a.de.tmpl": file("de"), "a.de-AT.tmpl": file("de-AT"),
		"a.zh-Hant.tmpl": file("zh-Hant"),
	})
	for locale, want := range map[string]string{
		"": "default", "fr": "default", "de": "de", "DE": "de", "de-AT": "de-AT", "de_at": "de-AT", "de-CH": "de",
		"de-AT-1996": "de-AT", "zh-Hant-TW": "zh-Hant", "zh": "default", "zh-Hant-CN-x-private1": "zh-Hant",
		"zh-Hant-x-a": "zh-Hant", "-": "default", "d": "default",
	} {
		got, err := s.Render("a", templates.Input{Locale: locale})
		if err != nil || got.Body != want {
			t.Errorf("%q: %+v, %v, want %s", locale, got, err, want)
		}
	}
	var none *templates.NotFoundError
	if _, err := s.Render("b", templates.Input{}); !errors.As(err, &none) || none.None {
		t.Errorf("unknown template: %v", err)
	}
	if _, err := (*templates.Set)(nil).Render("b", templates.Input{}); !errors.As(err, &none) ||
		none.Error() != `there is no template "b": templates.dir is unset, or has none` {
		t.Errorf("no templates at all: %v", err)
	}
}

// A template that loops, expands without bound or uses missing values ends with an error, the
// same one each time.
func TestHostile(t *testing.T) {
	huge := strings.Repeat("x", 300<<10)
	for _, c := range []struct{ name, body, want string }{
		{"empty loop", `{{ range 1000000000 }}{{ end }}`, "does it loop"},
		{"nested loops", `{{ range 1000 }}{{ range 1000 }}{{ end }}{{ end }}`, "does it loop"},
		{"loop without output", `{{ range 1000000000 }}{{ $x := 1 }}{{ end }}`, "does it loop"},
		{"loop with continue", `{{ range 1000000000 }}{{ continue }}{{ end }}`, "does it loop"},
		{"recursion", `{{ template "body" . }}`, "does it loop"},
		{"recursion that doubles", `{{ template "body" . }}{{ template "body" . }}`, "does it loop"},
		{"recursion without a word", `{{ if true }}{{ template "body" . }}{{ end }}`, "does it loop"},
		{"output", `{{ range 10000 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}`, "writes over 65536 bytes"},
		{"large value", `{{ .Data.huge }}`, "writes over 65536 bytes"},
		{"doubling", `{{ $x := "xx" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}`, "functions make over"},
		{
			"doubling by printf", `{{ $x := "xx" }}{{ range 100 }}{{ $x = printf "%s%[1]s" $x }}{{ end }}`,
			"functions make over",
		},
		{"escapes of escapes", `{{ $x := "\\" }}{{ range 100 }}{{ $x = js $x }}{{ end }}`, "functions make"},
		{"js of huge", `{{ $x := js .Data.huge }}`, "functions make over"},
		{"upper of huge", `{{ range 100 }}{{ $x := upper $.Data.huge }}{{ end }}`, "functions make over"},
		{"width", `{{ $x := printf "%1000000d" 1 }}`, "a format is at most"},
		{"width of an argument", `{{ $x := printf "%*d" 1000000 1 }}`, "a format is at most"},
		{"format that shows an argument often", `{{ $x := printf .Data.format .Data.huge }}`, "functions make over"},
		{"list as text", `{{ $x := print .Data.list }}`, "not text"},
		{"call", `{{ call .Data.name }}`, "not available"},
		{"missing", `{{ .Data.nobody }}`, `map has no entry for key "nobody"`},
		{"null", `{{ .Data.null }}`, `map has no entry for key "null"`},
		{"null in a list", `{{ range .Data.rows }}{{ .n }}{{ end }}`, `map has no entry for key "n"`},
		{"null in a list of lists", `{{ range index .Data.deep 0 }}{{ .n }}{{ end }}`, `map has no entry for key "n"`},
		{"null as an element", `{{ index .Data.nulls 0 }}`, "out of range"},
		{"no such field", `{{ .Nobody }}`, "can't evaluate field Nobody"},
		{"index out of range", `{{ index .Data.list 7 }}`, "out of range"},
		{"empty", ` `, ""},
		{"layout", `{{ .LocalTime.Format .Data.huge }}`, "a layout is at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := load(t, map[string]string{"a.tmpl": `{{ define "title" }}{{ end }}{{ define "body" }}` + c.body +
				`{{ end }}`})
			in := templates.Input{Data: map[string]any{
				"huge": huge, "list": []any{1.0}, "null": nil, "name": "x", "format": strings.Repeat("%[1]s", 200),
				"rows": []any{map[string]any{"n": nil}}, "deep": []any{[]any{map[string]any{"n": nil}}},
				"nulls": []any{nil},
			}}
			for range 2 { // the second rendering has a full budget again
				got, err := s.Render("a", in)
				if err == nil {
					t.Fatalf("rendered %d bytes: %.80q", len(got.Body), got.Body)
				}
				if !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
					t.Errorf("%v, want %s", err, c.want)
				}
				if c.want != "" && !strings.Contains(err.Error(), "a.tmpl:") {
					t.Errorf("no file and line: %v", err)
				}
			}
		})
	}
}

// Block html is bounded like the other blocks.
func TestHostileHTML(t *testing.T) {
	for _, body := range []string{
		`{{ range 1000000000 }}{{ end }}`, `{{ template "x" . }}{{ define "x" }}<b>{{ template "x" . }}</b>{{ end }}`,
		`<p {{ range 1000000000 }}a{{ end }}>`, `{{ range 10000 }}` + strings.Repeat("x", 100) + `{{ end }}`,
	} {
		text := `{{ define "body" }}x{{ end }}{{ define "html" }}` + strings.ReplaceAll(body, `{{ define`,
			`{{ end }}{{ define`)
		if !strings.Contains(body, "define") {
			text += `{{ end }}`
		}
		s := load(t, map[string]string{"a.tmpl": text})
		if got, err := s.Render("a", templates.Input{Channel: "email"}); err == nil {
			t.Errorf("%s: rendered %d bytes", body, len(got.HTML))
		}
		if _, err := s.Render("a", templates.Input{Channel: "push"}); err != nil {
			t.Errorf("%s: push needs no html: %v", body, err)
		}
	}
}

// Counting steps does not change what is escaped.
func TestStepsInHTML(t *testing.T) {
	s := load(t, map[string]string{"a.tmpl": `{{ define "body" }}x{{ end }}{{ define "html" }}` +
		`<a {{ if .Data.yes }}id="x"{{ end }} href="{{ .Data.link }}" onclick="f({{ .Data.name }})">` +
		`{{ range .Data.list }}<i>{{ . }}</i>{{ end }}{{ template "end" . }}</a>{{ end }}` +
		`{{ define "end" }}<b style="color: {{ .Data.color }}">{{ .Data.name }}</b>{{ end }}`})
	got, err := s.Render("a", templates.Input{Channel: "email", Data: map[string]any{
		"yes": false, "link": "a b", "list": []any{"<", "b"}, "name": `'"`, "color": "red",
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := `<a  href="a%20b" onclick="f(&#34;&#39;\&#34;&#34;)"><i>&lt;</i><i>b</i>` +
		`<b style="color: red">&#39;&#34;</b></a>`
	if got.HTML != want {
		t.Errorf("got  %s\nwant %s", got.HTML, want)
	}
}

// Errors in files are reported with file and line, all at once.
func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"a.tmpl", "{{ define \"body\" }}\n{{ .X\n{{ end }}", "a.tmpl:3: "},
		{"a.tmpl", "{{ define \"body\" }}\n\n{{ unknown }}{{ end }}", `a.tmpl:3: function "unknown" not defined`},
		{"a.tmpl", "{{ define \"body\" }}x", "a.tmpl:1: unexpected EOF"},
		{
			"a.tmpl", "{{ define \"body\" }}\n{{ template \"nobody\" }}{{ end }}",
			`a.tmpl:2:12: block "nobody" is not defined`,
		},
		{"a.tmpl", "\nHello {{ define \"body\" }}x{{ end }}", "text outside a block"},
		{"a.tmpl", "{{ define \"other\" }}x{{ end }}", "defines neither title nor body"},
		{
			"a.tmpl", "{{ define \"body\" }}x{{ end }}{{ define \"html\" }}<a href='{{ if .X }}'{{ end }}>{{ end }}",
			"a.tmpl:1",
		},
		{"a.tmpl", strings.Repeat("x", 64<<10+1), "has over 65536 bytes"},
		{"a.de.tmpl", `{{ define "body" }}x{{ end }}`, "template a has no file without a locale: write a.tmpl"},
		{"a b.tmpl", `{{ define "body" }}x{{ end }}`, "the name is not ID.tmpl"},
		{"a.1.tmpl", `{{ define "body" }}x{{ end }}`, "the name is not ID.tmpl"},
	} {
		_, err := templates.Load(directory(t, map[string]string{c.file: c.text, "good.tmpl": pills}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.60q: %v, want %s", c.file, c.text, err, c.want)
		}
	}
	if _, err := templates.Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a directory that is not there is no error")
	}
}

// No data can put a line end, or another control character, into a header.
func TestOneLine(t *testing.T) {
	s := load(t, map[string]string{"a.tmpl": `{{ define "title" }}Hi {{ .Data.name }}{{ end }}` +
		`{{ define "body" }}x{{ end }}{{ define "deep_link" }}app://{{ .Data.name }}{{ end }}`})
	for name, want := range map[string]string{
		"a\r\nBcc: evil@example.com": "Hi a Bcc: evil@example.com",
		"a\n\n\r\r\tb\u2028c\u2029d": "Hi a b c d",
		"\x00\x1b[31mred\x7f":        "Hi [31mred",
		"Grüße 🎉":                    "Hi Grüße 🎉",
	} {
		got, err := s.Render("a", templates.Input{Data: map[string]any{"name": name}})
		if err != nil || got.Title != want || strings.ContainsAny(got.DeepLink, "\r\n\x00") {
			t.Errorf("%q: %q, %q, %v; want %q", name, got.Title, got.DeepLink, err, want)
		}
	}
}

func FuzzOneLine(f *testing.F) {
	f.Add("a\r\nb")
	f.Fuzz(func(t *testing.T, s string) {
		got := templates.OneLine(s)
		if strings.ContainsAny(got, "\r\n\x00\u2028\u2029") || len(got) > len(s) {
			t.Errorf("%q → %q", s, got)
		}
		if twice := templates.OneLine(got); twice != got {
			t.Errorf("%q → %q → %q", s, got, twice)
		}
	})
}

func TestLocalTime(t *testing.T) {
	at := time.Date(2026, 11, 1, 6, 30, 0, 0, time.UTC) // the second 01:30 in New York
	for zone, want := range map[string]string{
		"America/New_York": "2026-11-01 01:30", "Asia/Kathmandu": "2026-11-01 12:15", "": "2026-11-01 06:30",
		"Mars/Olympus": "2026-11-01 06:30",
	} {
		if got := templates.LocalTimeAt(at, zone, calendar.Embedded()).String(); got != want {
			t.Errorf("%s: %s, want %s", zone, got, want)
		}
	}
	local, ok := templates.ParseLocalTime("2026-11-20T09:05:00[America/New_York]")
	got := fmt.Sprint(local, local.Clock(), local.Date(), local.Weekday(), local.Hour(), local.Minute(), local.Day(),
		local.Month(), local.Year(), local.Zone)
	if want := "2026-11-20 09:05 09:05 2026-11-20 5 9 5 20 11 2026 America/New_York"; !ok ||
		strings.Join(strings.Fields(got), "") != strings.Join(strings.Fields(want), "") {
		t.Errorf("%v: %s, want %s", ok, got, want)
	}
	for _, bad := range []string{"", "2026-11-20T09:05:00", "x[UTC]"} {
		if _, ok := templates.ParseLocalTime(bad); ok {
			t.Errorf("%q is a local time", bad)
		}
	}
}

// Concurrent renderings do not share a budget.
func TestParallel(t *testing.T) {
	s := load(t, map[string]string{"pills.tmpl": pills})
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for range 200 {
				if _, err := s.Render("pills", input()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRender(b *testing.B) {
	s := load(b, map[string]string{"pills.tmpl": pills})
	in := input()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Render("pills", in); err != nil {
			b.Fatal(err)
		}
	}
}
