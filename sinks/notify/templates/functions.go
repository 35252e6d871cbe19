package templates

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"strings"
	"text/template"
)

// Bounds of one rendering.
const (
	maxSteps = 20_000   // executed nodes
	maxMade  = 1 << 20  // bytes that functions make
	maxTitle = 1 << 10  // bytes of title
	maxBody  = 64 << 10 // bytes of body
	maxHTML  = 256 << 10
	maxLink  = 2 << 10 // bytes of deep_link
	maxWord  = 1 << 10 // bytes of a format
)

var (
	errSteps  = fmt.Errorf("it ran for over %d steps: does it loop?", maxSteps)
	errMade   = fmt.Errorf("its functions make over %d bytes", maxMade)
	errFormat = errors.New("a format is at most 1 KiB, with widths of at most 3 digits and no *")
	errCall   = errors.New("function call is not available")
)

// budget is the number of bytes that a rendering may still make.
type budget struct{ left int }

// charge subtracts the size of a text that a function has made.
func (b *budget) charge(s string) (string, error) {
	if b == nil { // nothing runs for long while a file is loaded
		return s, nil
	}
	if b.left -= len(s); b.left < 0 {
		return "", errMade
	}
	return s, nil
}

// functions returns the functions of templates: the built-in ones, with a bound on their results,
// and a few more.
func functions(b *budget) map[string]any {
	return map[string]any{
		"call":     func(any, ...any) (string, error) { return "", errCall },
		"print":    func(args ...any) (string, error) { return b.printed(fmt.Sprint, args) },
		"println":  func(args ...any) (string, error) { return b.printed(fmt.Sprintln, args) },
		"printf":   b.printf,
		"html":     func(args ...any) (string, error) { return b.escaped(template.HTMLEscaper, args) },
		"js":       func(args ...any) (string, error) { return b.escaped(template.JSEscaper, args) },
		"urlquery": func(args ...any) (string, error) { return b.escaped(template.URLQueryEscaper, args) },
		"upper":    func(s string) (string, error) { return b.charge(strings.ToUpper(s)) },
		"lower":    func(s string) (string, error) { return b.charge(strings.ToLower(s)) },
		"trim":     func(s string) (string, error) { return b.charge(strings.TrimSpace(s)) },
		"truncate": func(n int, s string) (string, error) { return b.charge(truncate(n, s)) },
		"default":  fallback,
	}
}

var _ = htmltemplate.FuncMap(functions(nil))

// printed returns the result of a function of fmt, if args are not too large.
func (b *budget) printed(f func(...any) string, args []any) (string, error) {
	if err := b.fits(args, 1); err != nil {
		return "", err
	}
	return b.charge(f(args...))
}

// escaped is printed for a function that may make 6 bytes from one.
func (b *budget) escaped(f func(...any) string, args []any) (string, error) {
	if err := b.fits(args, 6); err != nil {
		return "", err
	}
	return b.charge(f(args...))
}

// fits refuses texts beyond the bound before a result is made from them.
func (b *budget) fits(args []any, factor int) error {
	if b == nil {
		return nil
	}
	total := 0
	for _, a := range args {
		switch a := a.(type) {
		case string:
			total += len(a)
		case numeral:
			total += len(a)
		case []any, map[string]any:
			return errors.New("a list or an object is not text: use range or index")
		}
	}
	if total*factor > max(b.left, 0) {
		return errMade
	}
	return nil
}

func (b *budget) printf(format string, args ...any) (string, error) {
	if len(format) > maxWord {
		return "", errFormat
	}
	digits := 0
	for i := range len(format) {
		switch c := format[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '*':
			return "", errFormat
		default:
			digits = 0
		}
		if digits > 3 {
			return "", errFormat
		}
	}
	// Each verb can print each text once, by an index such as %[1]s.
	if err := b.fits(args, 1+strings.Count(format, "%")*6); err != nil {
		return "", err
	}
	return b.charge(fmt.Sprintf(format, args...))
}

// truncate returns the first n characters.
func truncate(n int, s string) string {
	for i := range s {
		if n <= 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// fallback returns value, or other if value is empty.
func fallback(other, value any) any {
	if ok, _ := template.IsTrue(value); ok {
		return value
	}
	return other
}

// output collects what a template writes, up to a bound. An empty write counts as a step of the
// rendering (addSteps).
type output struct {
	strings.Builder
	most  int
	steps *int
}

func (o *output) Write(p []byte) (int, error) {
	if len(p) == 0 {
		if *o.steps++; *o.steps > maxSteps {
			return 0, errSteps
		}
		return 0, nil
	}
	if o.Len()+len(p) > o.most {
		return 0, fmt.Errorf("it writes over %d bytes", o.most)
	}
	return o.Builder.Write(p)
}

// WriteString is like Write, so io.WriteString cannot bypass the bound.
func (o *output) WriteString(s string) (int, error) { return o.Write([]byte(s)) }
