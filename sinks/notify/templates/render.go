package templates

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

// Input is what a template can use.
type Input struct {
	Channel  string // push, sms or email
	Locale   string // the user's language, BCP 47; "": unknown
	User     string // "" if the trigger has none
	Trigger  string // trigger key without the tenant
	Type     string // tags.type; "": none
	Title    string // Title, Body and DeepLink are from the payload; "": none
	Body     string
	DeepLink string
	// LocalTime is the scheduled instant as the user's local time.
	LocalTime LocalTime
	// Data is template_data of the payload. A null counts as missing, also in a list.
	Data           map[string]any
	AckURL         string // AckURL and UnsubscribeURL: "" means none
	UnsubscribeURL string
}

// Text is a rendered message.
type Text struct {
	Title, Body, HTML, DeepLink string
	Locale                      string // of the file; "": the default
}

// NotFoundError means that there is no template of this name.
type NotFoundError struct {
	ID   string
	None bool // there are no templates at all
}

func (e *NotFoundError) Error() string {
	id := e.ID
	if len(id) > 64 {
		id = strings.ToValidUTF8(id[:64], "") + "…"
	}
	if e.None {
		return fmt.Sprintf("there is no template %q: templates.dir is unset, or has none", id)
	}
	return fmt.Sprintf("there is no template %q", id)
}

// Render renders template id. The error is a *NotFoundError, or describes with file and line why
// the template and its data do not fit.
func (s *Set) Render(id string, in Input) (Text, error) {
	f := s.find(id, in.Locale)
	if f == nil {
		return Text{}, &NotFoundError{ID: id, None: s == nil || len(s.byID) == 0}
	}
	in.Data = withoutNulls(in.Data)
	one := f.pool.Get().(*instance)
	defer f.pool.Put(one)
	return one.render(f, &in)
}

// find returns the file of a locale, or of its fallback (RFC 4647, 3.4).
func (s *Set) find(id, locale string) *file {
	if s == nil {
		return nil
	}
	files := s.byID[id]
	locale = strings.ToLower(strings.ReplaceAll(locale, "_", "-"))
	for locale != "" {
		if f := files[locale]; f != nil {
			return f
		}
		at := strings.LastIndexByte(locale, '-')
		if at < 0 {
			break
		}
		locale = locale[:at]
		if at >= 2 && locale[at-2] == '-' { // also cut the single letter before the subtag
			locale = locale[:at-2]
		}
	}
	return files[""]
}

// withoutNulls returns a copy without nulls, which would be shown as <no value>.
func withoutNulls(data map[string]any) map[string]any {
	out := make(map[string]any, len(data))
	for name, v := range data {
		if v != nil {
			out[name] = cleanedOfNulls(v)
		}
	}
	return out
}

func cleanedOfNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return withoutNulls(v)
	case []any:
		out := make([]any, 0, len(v))
		for _, one := range v {
			if one != nil {
				out = append(out, cleanedOfNulls(one))
			}
		}
		return out
	}
	return v
}

// instance is a template with its own budget, for one rendering at a time.
type instance struct {
	budget budget
	steps  int
	text   *template.Template
	html   *htmltemplate.Template
}

func (f *file) instance() *instance {
	i := &instance{}
	i.text = template.Must(f.text.Clone()).Funcs(functions(&i.budget))
	if f.html != nil {
		i.html = htmltemplate.Must(f.html.Clone()).Funcs(functions(&i.budget))
	}
	return i
}

func (i *instance) render(f *file, in *Input) (t Text, err error) {
	i.budget.left, i.steps = maxMade, 0
	t.Locale = f.locale
	for _, block := range []struct {
		name string
		most int
		into *string
	}{
		{blockTitle, maxTitle, &t.Title},
		{blockBody, maxBody, &t.Body},
		{blockHTML, maxHTML, &t.HTML},
		{blockDeepLink, maxLink, &t.DeepLink},
	} {
		if !f.has[block.name] || block.name == blockHTML && in.Channel != "email" {
			continue
		}
		out := &output{most: block.most, steps: &i.steps}
		if block.name == blockHTML {
			err = i.html.ExecuteTemplate(out, block.name, in)
		} else {
			err = i.text.ExecuteTemplate(out, block.name, in)
		}
		if err != nil {
			return Text{}, f.worded(block.name, err)
		}
		*block.into = strings.TrimSpace(out.String())
	}
	t.Title, t.DeepLink = OneLine(t.Title), OneLine(t.DeepLink)
	if t.Title == "" && t.Body == "" {
		return Text{}, fmt.Errorf("%s: title and body are empty", f.name())
	}
	return t, nil
}

// worded formats an error without Go's prefixes: file, line and what is wrong. Receipts show it
// to tenants, so the file has no directory.
func (f *file) worded(block string, err error) error {
	text := cleaned(err).Error()
	if _, ok := errors.AsType[template.ExecError](err); !ok { // an error of output
		return fmt.Errorf("%s: block %s: %w", f.name(), block, err)
	}
	if _, what, ok := strings.Cut(text, ">: "); ok {
		location, _, _ := strings.Cut(text, ": executing ")
		text = location + ": " + what
	}
	return errors.New(strings.ReplaceAll(text, f.text.Name(), f.name()))
}

func (f *file) name() string { return filepath.Base(f.text.Name()) }

// OneLine returns a text that may be in a header: blanks for line ends and tabs, and no other
// control characters.
func OneLine(s string) string {
	clean := true
	for i := range len(s) {
		clean = clean && s[i] >= ' ' && s[i] < 0x7f
	}
	if clean {
		return strings.TrimSpace(s)
	}
	var b strings.Builder
	blank := false
	for _, r := range s {
		switch {
		case r == utf8.RuneError, unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t', r == '\u2028',
			r == '\u2029':
			blank = blank || r == '\u2028' || r == '\u2029'
		case r == '\n', r == '\r', r == '\t', r == ' ':
			blank = true
		default:
			if blank && b.Len() > 0 {
				b.WriteByte(' ')
			}
			blank = false
			b.WriteRune(r)
		}
	}
	return b.String()
}
