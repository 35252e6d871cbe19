package config

import (
	"strings"

	"github.com/waterclock/waterclock/internal/near"
)

// Problem is one thing that is wrong with the settings.
type Problem struct {
	Key    string
	Source Source
	Msg    string
}

func (p Problem) String() string {
	if p.Source.Kind == "" || p.Source.Kind == "default" {
		return p.Key + ": " + p.Msg
	}
	return p.Key + " (" + p.Source.String() + "): " + p.Msg
}

// Problems is every problem found, as one error.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// suggest is "; did you mean …?" for a key that is no setting, or "".
func suggest(key string) string {
	folded := strings.ReplaceAll(strings.ToLower(key), "-", "_")
	if s, _ := find(folded); s != nil && folded != key {
		return "; did you mean " + folded + "?"
	}
	var candidates []string
	for _, s := range rows {
		candidates = append(candidates, strings.Replace(s.Key, namePart, nameGuess(key), 1))
	}
	if hint := near.Hint(key, candidates); hint != "" {
		return hint
	}
	for _, s := range rows { // the right word in the wrong place: kafka.brokers, prefix
		if lastPart(s.Key) == lastPart(key) && !s.Named() {
			return "; did you mean " + s.Key + "?"
		}
	}
	return "; `waterclock config show` lists them all"
}

// nameGuess is what stands where channels.<name>.topic has its name.
func nameGuess(key string) string {
	first, last := strings.Index(key, "."), strings.LastIndex(key, ".")
	if first < 0 || first == last {
		return namePart
	}
	return key[first+1 : last]
}

func lastPart(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// suggestEnv is suggest for the name of an environment variable.
func suggestEnv(variable string) string {
	var candidates []string
	for _, s := range rows {
		candidates = append(candidates, EnvName(s.Key))
	}
	return near.Hint(variable, candidates)
}
