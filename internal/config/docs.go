package config

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes docs/operations/settings.md. A test holds the file to
// it.
func WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString(docsIntro)
	for _, sec := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n", sec.Title)
		if sec.Intro != "" {
			fmt.Fprintf(&b, "%s\n\n", sec.Intro)
		}
		b.WriteString("| setting | type | default | meaning |\n|---|---|---|---|\n")
		for i := range sec.Settings {
			writeRow(&b, &sec.Settings[i])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const docsIntro = `# Settings

<!-- Made from the tables in internal/config/table*.go by go generate; do not edit. -->

A value comes from the first of these that has it: **flag**, **environment**, **file**, **default**.

* Flag: ` + "`--kafka-listen`" + ` for ` + "`kafka.listen`" + ` with ` + "`dev`" + ` and ` + "`serve`" + `; any setting with ` + "`--set key=value`" + `.
* Environment: ` + "`WATERCLOCK_KAFKA_LISTEN`" + ` for ` + "`kafka.listen`" + `. Write the key in upper case, with ` + "`_`" + ` for ` + "`.`" + `. Write the
  name of a channel or tenant in upper case too, with ` + "`_`" + ` for ` + "`-`" + `. If the file names that channel or tenant, the
  variable applies to the name as the file spells it.
* File: YAML, named by ` + "`--config`" + ` or ` + "`WATERCLOCK_CONFIG`" + `. ` + "`kafka: {listen: …}`" + ` and ` + "`kafka.listen: …`" + ` are the same.
* A secret (marked below) may come from a file: ` + "`kafka.sasl.password_file`" + ` for ` + "`kafka.sasl.password`" + `.
  An empty file is refused, and so is one that every user may write.
* Durations: ` + "`250ms`" + `, ` + "`30s`" + `, ` + "`5m`" + `, ` + "`1h30m`" + `, ` + "`2d`" + `, ` + "`1w`" + `, or a number of seconds. Sizes: ` + "`4KiB`" + `, ` + "`1.5GiB`" + `, ` + "`500MB`" + `, or
  a number of bytes. Lists: separated by commas; in YAML a list works too.
* Whole numbers: digits alone. ` + "`1_000`" + `, ` + "`1e6`" + ` and ` + "`0x10`" + ` are refused.
* No limit: ` + "`unlimited`" + `, where a setting names it. 0 is refused.
* YAML's ` + "`<<`" + ` is refused: write the settings out. An alias works.

` + "`waterclock config show`" + ` prints every setting with its value and where it came from, ` + "`--docs`" + ` also what it is.
` + "`waterclock config validate`" + ` lists every error; with ` + "`--serve`" + `, also what ` + "`serve`" + ` needs at its start.
`

func writeRow(b *strings.Builder, s *Setting) {
	def := code(s.Default)
	if s.Dev != "" {
		def += "; `dev`: " + code(s.Dev)
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", s.Key, typeText(s), def, strings.ReplaceAll(s.Doc, "|", `\|`))
}

func code(text string) string {
	if text == "" {
		return "unset"
	}
	return "`" + text + "`"
}

// typeText is the type with its bounds: "duration, 1ms to 10s, or `adaptive`".
func typeText(s *Setting) string {
	out := s.Type()
	switch {
	case len(s.OneOf) > 0:
		out += ": `" + strings.Join(s.OneOf, "`, `") + "`"
	case s.Min != "" && s.Max != "":
		out += ", " + s.Min + " to " + s.Max
	case s.Min != "":
		out += ", at least " + s.Min
	case s.Max != "":
		out += ", at most " + s.Max
	}
	if s.Word != "" {
		out += ", or `" + s.Word + "`"
	}
	if s.Secret {
		out += ", secret"
	}
	return out
}
