package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/internal/near"
)

// Setting is one row of the table: everything there is to know of a setting.
type Setting struct {
	Key      string   // a.b_c; "<name>" stands for a channel or a tenant
	Default  string   // as one would write it; "" means unset
	Dev      string   // the default of `waterclock dev`, where it is another
	Min, Max string   // bounds, inclusive, of a number, size or duration, or of each in a list
	OneOf    []string // the only words allowed, or the only ones in a list
	Word     string   // may be written for 0: "adaptive", "unlimited"
	Secret   bool     // masked when shown; Key_file names a file with the value
	Doc      string

	into  func(c *Config, name string) any // where it goes; its type is the setting's
	built map[string]string                // defaults of the built-in names, by name
}

// Type is the setting's type in the words of the documentation.
func (s *Setting) Type() string {
	if len(s.OneOf) > 0 {
		if _, list := s.scratch().(*[]string); list {
			return "list of words"
		}
		return "word"
	}
	switch s.scratch().(type) {
	case *bool:
		return "true or false"
	case *int, *float64:
		return "number"
	case *time.Duration:
		return "duration"
	case *[]time.Duration:
		return "list of durations"
	case *Size:
		return "size"
	case *[]Cap:
		return "list of caps"
	case *[]string:
		return "list"
	case *Replication:
		return "replication"
	}
	return "text"
}

// scratch is a variable of the setting's type that nobody else has.
func (s *Setting) scratch() any { return s.into(&Config{}, "x") }

// Named says that the key has a <name> in it.
func (s *Setting) Named() bool { return strings.Contains(s.Key, namePart) }

const namePart = "<name>"

// match finds the name in a key of this row; ok is false for other rows.
// Everything between prefix and suffix is the name, dots too.
func (s *Setting) match(key string) (name string, ok bool) {
	before, after, named := strings.Cut(s.Key, namePart)
	if !named {
		return "", key == s.Key
	}
	if len(key) <= len(before)+len(after) || !strings.HasPrefix(key, before) || !strings.HasSuffix(key, after) {
		return "", false
	}
	return key[len(before) : len(key)-len(after)], true
}

// defaultFor is the default under one of the built-in names, or anyone's.
func (s *Setting) defaultFor(name string, dev bool) string {
	if d, ok := s.built[name]; ok {
		return d
	}
	if dev && s.Dev != "" {
		return s.Dev
	}
	return s.Default
}

// set parses text into c; the error says what would be right, never the key.
func (s *Setting) set(c *Config, name, text string) error {
	target := s.into(c, name)
	if s.Word != "" && text == s.Word {
		return parse(target, "0") // without the bounds: 0 itself may be below the least allowed
	}
	if err := parse(target, text); err != nil {
		if s.Secret {
			return errors.New("the value cannot be read")
		}
		return err
	}
	if err := s.checkWords(target); err != nil {
		return err
	}
	return s.checkBounds(target)
}

// parse reads text into a pointer of one of the types a setting may have.
func parse(target any, text string) (err error) {
	switch p := target.(type) {
	case *string:
		*p = text
	case *[]string:
		*p = splitList(text)
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			err = fmt.Errorf("%q is neither true nor false", text)
		}
	case *int:
		if *p, err = strconv.Atoi(text); err != nil {
			err = fmt.Errorf("%q is not a whole number", text)
		}
	case *float64:
		if *p, err = strconv.ParseFloat(text, 64); err != nil || *p != *p {
			err = fmt.Errorf("%q is not a number", text)
		}
	case *Size:
		*p, err = ParseSize(text)
	case *time.Duration:
		*p, err = ParseDuration(text)
	case *[]time.Duration:
		*p = nil
		for _, part := range splitList(text) {
			d, err := ParseDuration(part)
			if err != nil {
				return err
			}
			*p = append(*p, d)
		}
	case *[]Cap:
		*p, err = parseCaps(text)
	case *Replication:
		*p, err = parseReplication(text)
	default:
		panic(fmt.Sprintf("config: no parser for %T", target))
	}
	return err
}

// text is the spelling parse reads back; the Word, if the value is 0.
func (s *Setting) text(c *Config, name string) string {
	out := format(s.into(c, name))
	if s.Word != "" && (out == "0" || out == "0s" || out == "0B") {
		return s.Word
	}
	return out
}

func format(target any) string {
	switch p := target.(type) {
	case *string:
		return *p
	case *[]string:
		return strings.Join(*p, ",")
	case *time.Duration:
		return FormatDuration(*p)
	case *[]time.Duration:
		parts := make([]string, len(*p))
		for i, d := range *p {
			parts[i] = FormatDuration(d)
		}
		return strings.Join(parts, ",")
	case *[]Cap:
		parts := make([]string, len(*p))
		for i, c := range *p {
			parts[i] = c.String()
		}
		return strings.Join(parts, ",")
	case *bool:
		return strconv.FormatBool(*p)
	case *int:
		return strconv.Itoa(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'f', -1, 64)
	case *Size:
		return p.String()
	case *Replication:
		return p.String()
	}
	panic(fmt.Sprintf("config: no spelling for %T", target))
}

func (s *Setting) checkWords(target any) error {
	if len(s.OneOf) == 0 {
		return nil
	}
	words := []string{}
	switch p := target.(type) {
	case *string:
		words = splitList(*p)
	case *[]string:
		words = *p
	}
	for _, w := range words {
		if !contains(s.OneOf, w) {
			return fmt.Errorf("%q is not one of %s%s", w, strings.Join(s.OneOf, ", "), near.Hint(w, s.OneOf))
		}
	}
	return nil
}

func (s *Setting) checkBounds(target any) error {
	for _, v := range magnitudes(target) {
		if s.Min != "" && v < s.bound(s.Min) {
			return fmt.Errorf("%s is below the least allowed, %s", format(target), s.Min)
		}
		if s.Max != "" && v > s.bound(s.Max) {
			return fmt.Errorf("%s is above the most allowed, %s", format(target), s.Max)
		}
	}
	return nil
}

// bound is Min or Max as a number; a bound that cannot be read is our mistake.
func (s *Setting) bound(text string) float64 {
	target := s.scratch()
	if err := parse(target, text); err != nil {
		panic("config: bound of " + s.Key + ": " + err.Error())
	}
	return magnitudes(target)[0]
}

// magnitudes are the numbers bounds apply to; none for words and texts.
func magnitudes(target any) []float64 {
	switch p := target.(type) {
	case *int:
		return []float64{float64(*p)}
	case *float64:
		return []float64{*p}
	case *Size:
		return []float64{float64(*p)}
	case *time.Duration:
		return []float64{float64(*p)}
	case *[]time.Duration:
		out := make([]float64, len(*p))
		for i, d := range *p {
			out[i] = float64(d)
		}
		return out
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}
