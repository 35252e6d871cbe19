package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// mutant is one row of the table.
//
//	[barrier-end-minus-1]
//	in    pipeline inputBarrier.reached
//	was   return i.at >= i.end
//	is    return i.at >= i.end-1
//	harm  The last command before a due time is not waited for: an acknowledged cancel fires.
//	kill  pipeline TestCancelBehindALateFetch
//
// in is a package and a function, or a method with its type. was must be there
// exactly once. is may be "-": nothing. There are one or more kill lines, each a
// package and a regexp of tests, which are run in this order until one fails; or
// one line same, which says why the product does the same in spite of the
// change. A line that begins with a space goes on with the one before.
type mutant struct {
	id, dir, function string
	was, is           string
	harm              string
	killers           []killer
	same              string
}

// killer is tests that must fail.
type killer struct{ dir, run string }

func (k killer) String() string { return k.dir + " " + k.run }

//go:embed table/*.txt
var tableFiles embed.FS

// table is all mutants, in the order of the files.
func table() (all []mutant, err error) {
	names, err := fs.Glob(tableFiles, "table/*.txt")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := tableFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		list, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, list...)
	}
	return all, unique(all)
}

func unique(all []mutant) error {
	seen := map[string]bool{}
	for _, m := range all {
		if seen[m.id] {
			return fmt.Errorf("two mutants are called %s", m.id)
		}
		seen[m.id] = true
	}
	return nil
}

var header = regexp.MustCompile(`^\[([a-z0-9-]+)\]$`)

// parse reads one file of the table.
func parse(text string) (all []mutant, err error) {
	for n, line := range joined(text) {
		if line == "" || line[0] == '#' {
			continue
		}
		if name := header.FindStringSubmatch(line); name != nil {
			all = append(all, mutant{id: name[1]})
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if len(all) == 0 {
			return nil, fmt.Errorf("line %d: a mutant begins with [its-id]", n+1)
		}
		if err := all[len(all)-1].set(word, strings.TrimSpace(rest)); err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	for i := range all {
		err = errors.Join(err, all[i].check())
	}
	return all, err
}

// joined is the lines of a text; what goes on with a line stands in it.
func joined(text string) []string {
	lines := strings.Split(text, "\n")
	last := 0
	for i, line := range lines {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "":
			lines[i], last = "", i
		case line[0] == ' ' || line[0] == '\t':
			lines[last] += " " + trimmed
			lines[i] = ""
		default:
			lines[i], last = trimmed, i
		}
	}
	return lines
}

func (m *mutant) set(word, rest string) error {
	field := map[string]*string{"was": &m.was, "is": &m.is, "harm": &m.harm, "same": &m.same}[word]
	first, second, two := strings.Cut(rest, " ")
	switch {
	case field != nil && *field == "" && rest != "":
		*field = rest
	case word == "in" && two && m.dir == "":
		m.dir, m.function = first, second
	case word == "kill" && two:
		m.killers = append(m.killers, killer{first, second})
	default:
		return fmt.Errorf("%s: what is %q %q? Write in, was, is, harm, kill or same, and something behind it", m.id,
			word, rest)
	}
	return nil
}

func (m *mutant) check() error {
	if slices.Contains([]string{m.dir, m.was, m.is, m.harm}, "") {
		return fmt.Errorf("%s: in, was, is and harm must be there", m.id)
	}
	if (len(m.killers) == 0) == (m.same == "") {
		return fmt.Errorf("%s: either kill or same must be there", m.id)
	}
	for _, k := range m.killers {
		if _, err := regexp.Compile(k.run); err != nil {
			return fmt.Errorf("%s: %w", m.id, err)
		}
	}
	return nil
}

// matches says whether -only means m.
func (m *mutant) matches(only *regexp.Regexp) bool {
	return only == nil || m.id == only.String() || only.MatchString(m.id) || only.MatchString(m.dir+"."+m.function)
}
