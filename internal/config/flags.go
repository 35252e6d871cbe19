package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// Flags collects the settings written on a command line, for Options.Flags.
type Flags struct {
	set   map[string]string
	pairs []string
	dev   bool // a flag added shows the default of `waterclock dev`
}

// NewFlags is an empty collection.
func NewFlags() *Flags { return &Flags{set: map[string]string{}} }

// Bind adds a flag for each key, and none for a flag that is already there.
// A key that is no plain setting is our mistake.
func (f *Flags) Bind(fs *pflag.FlagSet, keys ...string) {
	for _, key := range keys {
		s, _ := find(key)
		if s == nil || s.Named() {
			panic("config: no flag for " + key)
		}
		if fs.Lookup(FlagName(key)) == nil {
			fs.VarPF(&flagValue{s, f, f.dev}, FlagName(key), "", usage(s)).NoOptDefVal = noOpt(s)
		}
	}
}

// BindAll adds a flag for every plain setting: what `dev` and `serve` have.
// Secrets have none, because others can read a command line.
func (f *Flags) BindAll(fs *pflag.FlagSet) {
	for _, s := range rows {
		if !s.Named() && !s.Secret {
			f.Bind(fs, s.Key)
		}
	}
}

// BindAllDev is BindAll for `dev`: help shows its defaults.
func (f *Flags) BindAllDev(fs *pflag.FlagSet) {
	f.dev = true
	f.BindAll(fs)
	f.dev = false
}

// BindSet adds --set key=value, which can set anything, also of a channel.
func (f *Flags) BindSet(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.pairs, "set", nil, "set any setting: `key=value`; may be repeated")
}

// Values is what the user wrote, by key. A --set wins over a flag of its own.
func (f *Flags) Values() map[string]string {
	out := map[string]string{}
	for k, v := range f.set {
		out[k] = v
	}
	for _, pair := range f.pairs {
		k, v := cutPair(pair)
		out[k] = v
	}
	return out
}

// BySet are the keys that were written --set key=value.
func (f *Flags) BySet() map[string]bool {
	out := map[string]bool{}
	for _, pair := range f.pairs {
		k, _ := cutPair(pair)
		out[k] = true
	}
	return out
}

func cutPair(pair string) (key, value string) {
	key, value, _ = strings.Cut(pair, "=")
	return strings.TrimSpace(key), value
}

// flagValue checks at once, so that a bad flag is a usage error.
type flagValue struct {
	s   *Setting
	f   *Flags
	dev bool
}

func (v *flagValue) Set(text string) error {
	if err := v.s.set(&Config{}, "", text); err != nil {
		return err
	}
	v.f.set[v.s.Key] = text
	return nil
}

func (v *flagValue) String() string {
	if v.s == nil { // pflag asks a zero value
		return ""
	}
	if text, ok := v.f.set[v.s.Key]; ok {
		return text
	}
	return v.s.defaultFor("", v.dev)
}

func (v *flagValue) Type() string {
	if noOpt(v.s) != "" {
		return "bool"
	}
	return strings.ReplaceAll(v.s.Type(), " ", "-")
}

func noOpt(s *Setting) string {
	if _, isBool := s.scratch().(*bool); isBool {
		return "true"
	}
	return ""
}

// usage is the first sentence of the setting's meaning, as a flag's help.
func usage(s *Setting) string {
	doc := strings.ReplaceAll(s.Doc, "`", "")
	if i := strings.Index(doc, ". "); i > 0 {
		doc = doc[:i]
	}
	return strings.TrimSuffix(doc, ".")
}
