package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// declared is one trigger of a file: its id and the fields of a register.
type declared struct {
	Key      string
	Position string // file:line, for messages
	Fields   map[string]any
	Spec     *trigger.Spec
	Finished bool // printed by get or list after its end: nothing is declared
}

// readDeclared reads files, directories (their *.yaml, *.yml and *.json) and "-" for standard
// input. The error joins all mistakes. If there is any, the caller writes nothing.
func (a *app) readDeclared(c *config.Config, names []string) ([]declared, error) {
	if len(names) == 0 {
		return nil, usagef("name the file with -f; - is standard input")
	}
	var all []declared
	var wrong []error
	for _, name := range names {
		files, err := filesOf(name)
		if err != nil {
			return nil, usagef("-f %s: %v", name, cause(err))
		}
		for _, file := range files {
			list, err := a.readDeclaredFile(c, file)
			all, wrong = append(all, list...), append(wrong, err)
		}
	}
	first := map[string]string{}
	for _, d := range all {
		if other, twice := first[d.Key]; twice {
			wrong = append(wrong, fmt.Errorf("%s: trigger %s is also declared at %s", d.Position, d.Key, other))
		}
		first[d.Key] = d.Position
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, &failure{Exit: exitUsage, Msg: "nothing was written", Err: indented{err}}
	}
	return all, nil
}

func filesOf(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	entries, err := os.ReadDir(name)
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	return files, err
}

func (a *app) readDeclaredFile(c *config.Config, file string) ([]declared, error) {
	content, err := a.readFileOrInput(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, cause(err))
	}
	var all []declared
	var wrong []error
	var finished int64
	for dec := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			if finished > 0 {
				a.note("%s: passed over %s that ended: cancelled, failed, fired or expired", file,
					count(finished, "trigger"))
			}
			return all, errors.Join(wrong...)
		}
		if err != nil {
			return nil, errors.Join(append(wrong, withPosition(file, 0, err))...)
		}
		for _, node := range triggersOf(&doc) {
			d, err := declare(c, fmt.Sprintf("%s:%d", file, node.Line), node)
			if err != nil {
				wrong = append(wrong, withPosition(file, lineOf(node, err), err))
				continue
			}
			if d.Finished {
				finished++
				continue
			}
			all = append(all, d)
		}
	}
}

// readOptionalFile reads the file that args names, or standard input if there is none.
func (a *app) readOptionalFile(args []string) (file string, content []byte, err error) {
	file = "-"
	if len(args) > 0 {
		file = args[0]
	}
	if content, err = a.readFileOrInput(file); err != nil {
		return file, nil, usagef("%s: %v", file, cause(err))
	}
	return file, content, nil
}

func (a *app) readFileOrInput(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.io.in)
	}
	return os.ReadFile(file)
}

// triggersOf returns the triggers of one YAML document, which holds a list or a single trigger.
func triggersOf(doc *yaml.Node) []*yaml.Node {
	node := doc
	if doc.Kind == yaml.DocumentNode {
		node = doc.Content[0]
	}
	switch {
	case node.Kind == yaml.SequenceNode:
		return node.Content
	case node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null":
		return nil // an empty document
	}
	return []*yaml.Node{node}
}

// undeclarable are fields that depend on the state at one moment. They make no sense in a
// declaration that is applied many times.
var undeclarable = []string{"if_revision", "if_absent", "idempotency_key"}

// declare checks one trigger as far as is possible without the engine.
func declare(c *config.Config, position string, node *yaml.Node) (declared, error) {
	d := declared{Position: position}
	value, err := (&yamlReader{budget: maxYAMLNodes}).value(node)
	if err != nil {
		return d, err
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return d, errors.New("a trigger is a mapping with an id and the fields of a register")
	}
	if id, printed := fields["trigger_id"].(string); printed && fields["id"] == nil { // the output of get and list
		state, _ := fields["state"].(string)
		if status, known := trigger.ParseStatus(state); known && status.Finished() {
			return declared{Finished: true}, nil
		}
		if fields["payload_hidden"] == true {
			return d, fmt.Errorf("trigger %s: its payload was hidden from the key that printed it, and would be "+
				"deleted: print it with a key of role reader", id)
		}
		if fields, err = declaredAsPrinted(fields); err != nil {
			return d, err
		}
		fields["id"] = id
	}
	if d.Key, ok = fields["id"].(string); !ok || d.Key == "" {
		return d, errors.New("the id is missing: write a string")
	}
	delete(fields, "id")
	if op, given := fields["op"]; given && op != "register" {
		return d, fmt.Errorf("trigger %s: op %v is not allowed in a file, only register", d.Key, op)
	}
	delete(fields, "op")
	for _, name := range undeclarable {
		if _, given := fields[name]; given {
			return d, fmt.Errorf("trigger %s: field %s is not allowed in a file", d.Key, name)
		}
	}
	d.Fields = fields
	if d.Spec, err = specOf(c, d.Key, fields); err != nil {
		return d, fmt.Errorf("trigger %s: %w", d.Key, err)
	}
	if _, err := compileWhen(&d.Spec.When, "", time.Now().UnixMilli()); err != nil {
		return d, fmt.Errorf("trigger %s: %w", d.Key, err)
	}
	return d, nil
}

// declaredAsPrinted converts the output of `get -o json` or `list -o json` into a declaration.
func declaredAsPrinted(printed map[string]any) (map[string]any, error) {
	b, err := json.Marshal(printed)
	if err != nil {
		return nil, fmt.Errorf("encode the trigger: %w", err)
	}
	var t map[string]json.RawMessage
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("read the trigger: %w", err)
	}
	return registerOf(t), nil
}

// ownLine matches YAML errors that name a line themselves, which is more exact than the caller's.
var ownLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// withPosition adds the file and line to an error. Line 0 means that the line is not known.
func withPosition(file string, line int, err error) error {
	if m := ownLine.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%s:%s: %s", file, m[1], err.Error()[len(m[0]):])
	}
	if line == 0 {
		return fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Errorf("%s:%d: %w", file, line, err)
}

// lineOf returns the line of the field that caused the error, or of its trigger.
func lineOf(node *yaml.Node, err error) int {
	var w *wordedError
	if node.Kind != yaml.MappingNode || !errors.As(err, &w) {
		return node.Line
	}
	field, _, _ := strings.Cut(w.field, ".")
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == field {
			return node.Content[i].Line
		}
	}
	return node.Line
}

// specOf decodes a register as the engine would.
func specOf(c *config.Config, key string, fields map[string]any) (*trigger.Spec, error) {
	value, err := json.Marshal(wish{Op: trigger.OpRegister, Fields: fields}.body())
	if err != nil {
		return nil, fmt.Errorf("encode the command: %w", err)
	}
	rec := &topics.Record{
		Topic: c.Topic("commands"), Key: []byte(key), Value: value,
		Timestamp: trigger.Instant(time.Now().UnixMilli()),
	}
	command, err := topics.DecodeCommand(rec, topics.Limits{Payload: topics.MaxPayload}, nil)
	if err != nil {
		return nil, worded(err)
	}
	return command.Spec, nil
}

// wordedError is a domain error written for people: the field, and what to write.
type wordedError struct{ field, text string }

func (w *wordedError) Error() string { return strings.TrimPrefix(w.field+": "+w.text, ": ") }

func worded(err error) error {
	var e *trigger.Error
	if errors.As(err, &e) {
		return &wordedError{e.Field, e.Msg}
	}
	var ce *calendar.Error
	if errors.As(err, &ce) {
		return &wordedError{ce.Field, ce.Msg}
	}
	return err
}
