package config

import (
	"fmt"
	"sort"
	"strings"
)

// Options says where settings may come from.
type Options struct {
	File  string            // YAML; "" means none
	Env   []string          // as os.Environ gives it; nil means none
	Flags map[string]string // by setting's key; only those the user wrote
	Set   map[string]bool   // the keys of Flags that were written --set key=value
	Dev   bool              // take the defaults of `waterclock dev`
}

// Source is where a value came from.
type Source struct {
	Kind  string // flag, env, file, default
	Where string // --listen, --set listen, WATERCLOCK_LISTEN, the file's path; "" for default
}

func (s Source) String() string {
	if s.Where == "" {
		return s.Kind
	}
	return s.Kind + " " + s.Where
}

// Load reads all sources and checks what came out. The Config is usable only
// if the error is nil; the error is a Problems.
func Load(o Options) (*Config, error) {
	l := &loader{
		c:    &Config{dev: o.Dev, sources: map[string]Source{}, secretFiles: map[string]string{}, from: o},
		lost: map[string]bool{},
	}
	fromFile := l.readFile(o.File)
	fromEnv := l.readEnv(o.Env, fromFile)
	fromFlags := l.readFlags(o.Flags, o.Set)

	l.fillDefaults(fromFile, fromEnv, fromFlags)
	for _, layer := range []layer{fromFile, fromEnv, fromFlags} { // weakest first
		l.apply(layer)
	}
	l.check()
	if len(l.problems) > 0 {
		return l.c, l.problems
	}
	return l.c, nil
}

// layer is what one source says: texts by key.
type layer map[string]given

type given struct {
	text string
	from Source
	file string // that a secret came from; "" for none
}

type loader struct {
	c        *Config
	problems Problems
	lost     map[string]bool // secrets whose file cannot be used
}

func (l *loader) problem(key string, from Source, format string, args ...any) {
	l.problems = append(l.problems, Problem{Key: key, Source: from, Msg: fmt.Sprintf(format, args...)})
}

// readEnv takes what begins with WATERCLOCK_. An unknown name is a warning
// only: Kubernetes adds variables of its own for a service of our name.
func (l *loader) readEnv(environ []string, fromFile layer) layer {
	out := layer{}
	names := namesIn(fromFile)
	for _, pair := range environ {
		variable, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(variable, envPrefix) || foreignEnv(variable) {
			continue
		}
		key := keyOfEnv(variable, names)
		if key == "" {
			l.c.Warnings = append(l.c.Warnings,
				"environment variable "+variable+" is not a setting"+suggestEnv(variable))
			continue
		}
		l.take(out, key, text, Source{"env", variable})
	}
	return out
}

// foreignEnv knows variables with our prefix that are not settings: of the
// command line, of the tests, and those Kubernetes makes for a service named waterclock.
func foreignEnv(variable string) bool {
	rest := strings.TrimPrefix(variable, envPrefix)
	return rest == "CONFIG" || rest == "OUTPUT" || rest == "PORT" || strings.HasPrefix(rest, "PORT_") ||
		strings.HasPrefix(rest, "TEST_") ||
		strings.HasSuffix(rest, "SERVICE_HOST") || strings.HasSuffix(rest, "SERVICE_PORT") ||
		strings.Contains(rest, "SERVICE_PORT_")
}

// keyOfEnv is the setting of a variable, or "". A variable cannot hold every
// character of a name: a name the file has wins over the lower-cased literal.
func keyOfEnv(variable string, names []string) string {
	for _, s := range rows {
		switch {
		case s.Named():
		case EnvName(s.Key) == variable:
			return s.Key
		case s.Secret && EnvName(s.Key)+"_FILE" == variable:
			return s.Key + "_file"
		}
	}
	for _, s := range rows {
		if !s.Named() {
			continue
		}
		if key := namedKeyOfEnv(s, variable, names); key != "" {
			return key
		}
		if plain, isFile := strings.CutSuffix(variable, "_FILE"); isFile && s.Secret {
			if key := namedKeyOfEnv(s, plain, names); key != "" {
				return key + "_file"
			}
		}
	}
	return ""
}

func namedKeyOfEnv(s *Setting, variable string, names []string) string {
	before, after, _ := strings.Cut(s.Key, namePart)
	prefix, suffix := EnvName(before), strings.TrimPrefix(EnvName(after), envPrefix)
	if len(variable) <= len(prefix)+len(suffix) || !strings.HasPrefix(variable, prefix) ||
		!strings.HasSuffix(variable, suffix) {
		return ""
	}
	middle := variable[len(prefix) : len(variable)-len(suffix)]
	for _, name := range names {
		if strings.TrimPrefix(EnvName(name), envPrefix) == middle {
			return before + name + after
		}
	}
	return before + strings.ToLower(middle) + after
}

func (l *loader) readFlags(flags map[string]string, set map[string]bool) layer {
	out := layer{}
	for _, key := range sortedKeys(flags) {
		where := "--" + FlagName(key)
		if set[key] {
			where = "--set " + key
		}
		l.take(out, key, flags[key], Source{"flag", where})
	}
	return out
}

// take adds one text to a layer, if its key exists. A secret's _file is read
// here, so that it has the rank of its source.
func (l *loader) take(out layer, key, text string, from Source) {
	if s, _ := find(key); s != nil {
		l.add(out, key, given{text: text, from: from})
		return
	}
	base, isFile := strings.CutSuffix(key, "_file")
	if s, _ := find(base); !isFile || s == nil || !s.Secret {
		l.problem(key, from, "is not a setting%s", suggest(key))
		return
	}
	content, err := readSecret(text)
	switch {
	case err != nil:
		l.problem(key, from, "cannot be read: %v", err)
	case strings.TrimSpace(content) == "":
		l.problem(key, from, "%s is empty: write the secret into it, or omit the setting", text)
	default:
		l.add(out, base, given{content, from, text})
		return
	}
	l.lost[base] = true
}

func (l *loader) add(out layer, key string, g given) {
	switch before, twice := out[key]; {
	case twice && (before.file == "") != (g.file == ""):
		l.problem(key, g.from, "is given twice, directly and as %s_file: keep one", key)
		return
	case twice && g.from.Kind == "file":
		l.problem(key, g.from, "is given twice: keep one")
		return
	}
	out[key] = g
}

// fillDefaults sets every default: of the plain settings, and of the channels
// and tenants that any layer names.
func (l *loader) fillDefaults(layers ...layer) {
	for _, s := range rows {
		if !s.Named() {
			l.c.fill(s, "")
		}
	}
	for _, given := range layers {
		for _, key := range sortedKeys(given) {
			if s, name := find(key); s.Named() {
				group, _, _ := strings.Cut(s.Key, namePart)
				l.c.fillNamed(group, name)
			}
		}
	}
}

// fillNamed sets the defaults of all settings under "channels." or "tenants."
// of one name.
func (c *Config) fillNamed(group, name string) {
	for _, s := range rows {
		if s.Named() && strings.HasPrefix(s.Key, group) {
			c.fill(s, name)
		}
	}
}

func (c *Config) fill(s *Setting, name string) {
	if text := s.defaultFor(name, c.dev); text != "" {
		if err := s.set(c, name, text); err != nil {
			panic("config: default of " + s.Key + ": " + err.Error())
		}
	}
}

func (l *loader) apply(from layer) {
	for _, key := range sortedKeys(from) {
		s, name := find(key)
		if err := s.set(l.c, name, from[key].text); err != nil {
			l.problem(key, from[key].from, "%v", err)
		}
		l.c.sources[key] = from[key].from
		delete(l.c.secretFiles, key)
		if file := from[key].file; file != "" {
			l.c.secretFiles[key] = file
		}
	}
}

// namesIn lists the channels and tenants a layer names.
func namesIn(from layer) (names []string) {
	for _, key := range sortedKeys(from) {
		if _, name := find(key); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
