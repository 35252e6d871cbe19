package gateway

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/problem"
)

// errNoMerge is the answer to a patch of what cannot be merged.
var errNoMerge = problem.Malformed("the body is not JSON that can be merged")

// mergePatch is MergePatch of RFC 7396, section 2. target is nil if there is none. Members that the patch does not
// name keep their bytes: a payload is delivered as it was sent, and its limit counts bytes.
func mergePatch(target, patch jsontext.Value) (jsontext.Value, error) {
	if patch.Kind() != '{' {
		return patch, nil
	}
	t, p, err := parseBoth(target, patch)
	if err != nil {
		return nil, err
	}
	return t.appendMerged(nil, p), nil
}

// changesNothing reports whether a merge patch leaves its target as it is, whatever the target's values are. target is
// nil if there is none.
func changesNothing(patch, target jsontext.Value) (bool, error) {
	if patch.Kind() != '{' || target.Kind() != '{' {
		return patch.Kind() == 'n' && target == nil, nil
	}
	t, p, err := parseBoth(target, patch)
	if err != nil {
		return false, err
	}
	return p.removesNothing(t), nil
}

// tree is a JSON value, with the members of its objects.
type tree struct {
	raw     jsontext.Value // as it was written
	members []member       // of an object
}

type member struct {
	name  string
	raw   jsontext.Value // the name as it was written
	value tree
}

func parseBoth(target, patch jsontext.Value) (t, p *tree, err error) {
	if p, err = parseTree(patch); err == nil && target.Kind() == '{' {
		t, err = parseTree(target)
	}
	if err != nil {
		return nil, nil, errNoMerge
	}
	return t, p, nil
}

func parseTree(b jsontext.Value) (*tree, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true))
	var t tree
	return &t, t.read(dec, b)
}

// read takes the next value of b from its decoder.
func (t *tree) read(dec *jsontext.Decoder, b []byte) (err error) {
	if dec.PeekKind() != '{' {
		t.raw, err = readRaw(dec, b)
		return err
	}
	if _, err = dec.ReadToken(); err != nil {
		return err
	}
	begin := dec.InputOffset() - 1
	for dec.PeekKind() != '}' {
		var m member
		if m.raw, err = readRaw(dec, b); err != nil {
			return err
		}
		text, _ := jsontext.AppendUnquote(nil, m.raw) // valid, because the decoder accepted it
		m.name = string(text)
		if err = m.value.read(dec, b); err != nil {
			return err
		}
		t.members = append(t.members, m)
	}
	_, err = dec.ReadToken()
	t.raw = b[begin:dec.InputOffset()]
	return err
}

// readRaw takes the next value as it is written in b.
func readRaw(dec *jsontext.Decoder, b []byte) (jsontext.Value, error) {
	v, err := dec.ReadValue()
	end := int(dec.InputOffset())
	return b[end-len(v) : end], err
}

// last says where each name stands. Of several members with one name the last counts, as for most who read JSON.
func (t *tree) last() map[string]int {
	if t == nil {
		return nil
	}
	at := make(map[string]int, len(t.members))
	for i := range t.members {
		at[t.members[i].name] = i
	}
	return at
}

func (t *tree) isObject() bool { return t != nil && t.raw.Kind() == '{' }

func (t *tree) isNull() bool { return t.raw.Kind() == 'n' }

// appendMerged appends t with a patch applied to it.
func (t *tree) appendMerged(b []byte, patch *tree) []byte {
	switch {
	case !patch.isObject():
		return append(b, patch.raw...)
	case !t.isObject():
		t = &tree{}
	}
	has, patches := t.last(), patch.last()
	b = append(b, '{')
	begin := len(b)
	for i := range t.members {
		m := &t.members[i]
		at, patched := patches[m.name]
		switch {
		case !patched:
			b = append(m.appendName(b, begin), m.value.raw...)
		case i == has[m.name] && !patch.members[at].value.isNull():
			b = m.value.appendMerged(m.appendName(b, begin), &patch.members[at].value)
		}
	}
	for i := range patch.members {
		m := &patch.members[i]
		if _, known := has[m.name]; !known && i == patches[m.name] && !m.value.isNull() {
			b = (*tree)(nil).appendMerged(m.appendName(b, begin), &m.value)
		}
	}
	return append(b, '}')
}

// appendName appends a member up to its value. The members of its object begin at begin.
func (m *member) appendName(b []byte, begin int) []byte {
	if len(b) > begin {
		b = append(b, ',')
	}
	return append(append(b, m.raw...), ':')
}

// removesNothing reports whether a patch, an object, removes only members that an object does not have.
func (t *tree) removesNothing(of *tree) bool {
	has := of.last()
	for name, at := range t.last() {
		p := &t.members[at].value
		in, known := has[name]
		switch {
		case p.isNull() && known:
			return false
		case p.isNull():
		case !p.isObject() || !known || !of.members[in].value.isObject() || !p.removesNothing(&of.members[in].value):
			return false
		}
	}
	return true
}
