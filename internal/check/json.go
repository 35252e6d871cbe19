package check

import (
	"bytes"
	"encoding/json"
	"errors"
)

var errJSON = errors.New("not a JSON object")

// members calls f for every member of a JSON object, in order, with its name and the raw bytes of
// its value. It does not validate all of b. Callers that need valid JSON call json.Valid first.
func members(b []byte, f func(name []byte, raw []byte) error) error {
	b = space(b)
	if len(b) == 0 || b[0] != '{' {
		return errJSON
	}
	b = space(b[1:])
	if len(b) > 0 && b[0] == '}' {
		return nil
	}
	for {
		n := valueLen(b)
		if n < 2 || b[0] != '"' {
			return errJSON
		}
		name := b[:n]
		if b = space(b[n:]); len(b) == 0 || b[0] != ':' {
			return errJSON
		}
		b = space(b[1:])
		if n = valueLen(b); n <= 0 {
			return errJSON
		}
		if err := f(unquoted(name), b[:n:n]); err != nil {
			return err
		}
		if b = space(b[n:]); len(b) == 0 {
			return errJSON
		}
		if b[0] == '}' {
			return nil
		}
		if b[0] != ',' {
			return errJSON
		}
		b = space(b[1:])
	}
}

func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// valueLen returns the length of the JSON value at the beginning of b, or 0 if there is none.
func valueLen(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case '"':
		return stringLen(b)
	case '{', '[':
		return nestedLen(b)
	}
	for n, c := range b {
		switch c {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return n
		}
	}
	return len(b)
}

func stringLen(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

func nestedLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringLen(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// unquoted returns the text of a JSON string. It shares raw's bytes if nothing is escaped.
func unquoted(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return raw
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw[1 : len(raw)-1]
	}
	return []byte(s)
}

func isString(raw []byte) bool { return len(raw) > 1 && raw[0] == '"' }
func isNull(raw []byte) bool   { return string(raw) == "null" }

// elements returns the raw values of a JSON array.
func elements(raw []byte) (out [][]byte, ok bool) {
	b := space(raw)
	if len(b) == 0 || b[0] != '[' {
		return nil, false
	}
	b = space(b[1:])
	if len(b) > 0 && b[0] == ']' {
		return nil, true
	}
	for {
		n := valueLen(b)
		if n <= 0 {
			return nil, false
		}
		out = append(out, b[:n:n])
		if b = space(b[n:]); len(b) == 0 {
			return nil, false
		}
		if b[0] == ']' {
			return out, true
		}
		if b[0] != ',' {
			return nil, false
		}
		b = space(b[1:])
	}
}
