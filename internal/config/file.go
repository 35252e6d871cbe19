package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile flattens the YAML file; nested and dotted keys mean the same.
func (l *loader) readFile(path string) layer {
	out := layer{}
	if path == "" {
		return out
	}
	from := Source{"file", path}
	f := fileReader{l: l, from: from, out: out, maps: map[string][]string{}}
	if err := f.read(path); err != nil {
		l.problem("config", from, "cannot be read: %v", err)
		return layer{}
	}
	return out
}

// fileReader takes values as they are written: YAML would read a password of digits as a number, and one that begins
// with 0 as an octal one.
type fileReader struct {
	l     *loader
	from  Source
	out   layer
	maps  map[string][]string // entries of the settings that are maps: name=value
	depth int
}

// maxDepth bounds how deep values are nested. A value that contains itself exceeds it.
const maxDepth = 32

func (f *fileReader) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var document yaml.Node
	err = yaml.NewDecoder(bytes.NewReader(text)).Decode(&document)
	if errors.Is(err, io.EOF) {
		f.l.c.blank = true
		return nil
	}
	if err != nil {
		return err
	}
	root := resolved(document.Content[0])
	if root.Kind != yaml.MappingNode {
		if unset(root) {
			return nil
		}
		return errors.New("the file is no map of settings")
	}
	if err := f.mapping("", root); err != nil {
		return err
	}
	for _, key := range sortedKeys(f.maps) {
		sort.Strings(f.maps[key])
		f.l.take(f.out, key, strings.Join(f.maps[key], ","), f.from)
	}
	return nil
}

func (f *fileReader) mapping(prefix string, n *yaml.Node) error {
	if f.depth++; f.depth > maxDepth {
		return fmt.Errorf("line %d: values are nested over %d deep; does one contain itself?", n.Line, maxDepth)
	}
	defer func() { f.depth-- }()
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := resolved(n.Content[i]), resolved(n.Content[i+1])
		switch {
		case name.ShortTag() == "!!merge":
			return fmt.Errorf("line %d: << is not supported here: write the settings out", name.Line)
		case value.Kind == yaml.MappingNode:
			if err := f.mapping(prefix+name.Value+".", value); err != nil {
				return err
			}
		default:
			f.value(prefix+name.Value, value)
		}
	}
	return nil
}

func (f *fileReader) value(key string, n *yaml.Node) {
	text, ok := textOf(n)
	switch {
	case unset(n):
	case !ok:
		f.l.problem(key, f.from, "is a list or map whose values are not scalars%s", suggest(key))
	default:
		if setting, name, ok := inMap(key); ok {
			f.maps[setting] = append(f.maps[setting], name+"="+text)
			return
		}
		f.l.take(f.out, key, text, f.from)
	}
}

// unset: "key:" with nothing behind it.
func unset(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// resolved is what an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// inMap splits the key of an entry of a setting that is a map. Elsewhere such a setting is a text:
// name=value,name=value.
func inMap(key string) (setting, name string, ok bool) {
	const replication, headers = "cassandra.replication", ".headers."
	if dc, ok := strings.CutPrefix(key, replication+"."); ok {
		return replication, dc, true
	}
	at := strings.LastIndex(key, headers)
	if at < 0 || !strings.HasPrefix(key, "endpoints.") {
		return "", "", false
	}
	return key[:at+len(headers)-1], key[at+len(headers):], true
}

// textOf is a YAML value as one would write it in the environment.
func textOf(n *yaml.Node) (string, bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, true
	case yaml.SequenceNode:
		var parts []string
		for _, item := range n.Content {
			item = resolved(item)
			if item.Kind != yaml.ScalarNode || unset(item) {
				return "", false
			}
			parts = append(parts, item.Value)
		}
		return strings.Join(parts, ","), true
	}
	return "", false
}
