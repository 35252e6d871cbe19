package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/fold"
	"github.com/waterclock/waterclock/internal/kafkaconn"
)

// stdio holds the environment and the standard streams of a run. Tests replace them.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	env      []string // in the format of os.Environ
}

// app holds what all verbs share: global settings, output, and the standard streams.
type app struct {
	io         stdio
	out        *output
	flags      *config.Flags
	configFile string
	started    bool // a verb has begun, so the command line was valid
}

func newApp(io stdio) *app {
	return &app{io: io, out: &output{w: io.out}, flags: config.NewFlags()}
}

// bindGlobal adds the flags that every verb has.
func (a *app) bindGlobal(root *cobra.Command) {
	fs := root.PersistentFlags()
	a.flags.Bind(fs, "brokers", "url", "data_dir")
	a.flags.BindSet(fs)
	fs.StringVar(&a.configFile, "config", "", "settings `file`, YAML (or WATERCLOCK_CONFIG)")
	fs.StringVarP(&a.out.format, "output", "o", "", "table, json or ndjson (or WATERCLOCK_OUTPUT; default table)")
	fs.StringVar(&a.out.filter, "jq", "", "print the output of this jq `filter` for each JSON result")
	_ = root.RegisterFlagCompletionFunc("output",
		cobra.FixedCompletions(outputFormats, cobra.ShellCompDirectiveNoFileComp))
	a.out.fallback = a.env("OUTPUT")
}

// env returns the value of WATERCLOCK_<name>.
func (a *app) env(name string) string {
	prefix := "WATERCLOCK_" + name + "="
	for _, pair := range a.io.env {
		if v, ok := strings.CutPrefix(pair, prefix); ok {
			return v
		}
	}
	return ""
}

// config loads the settings. If dev is true, the defaults of `waterclock dev` apply. Warnings go
// to standard error.
func (a *app) config(dev bool) (*config.Config, error) {
	c, err := a.loadConfig(dev)
	if err != nil {
		return nil, &failure{Exit: exitUsage, Msg: "settings are wrong", Err: indented{err}}
	}
	for _, w := range c.Warnings {
		a.note("waterclock: warning: %s", w)
	}
	return c, nil
}

func (a *app) loadConfig(dev bool) (*config.Config, error) {
	file := a.configFile
	if file == "" {
		file = a.env("CONFIG")
	}
	return config.Load(config.Options{
		File: file, Env: a.io.env, Flags: a.flags.Values(), Set: a.flags.BySet(),
		Dev: dev,
	})
}

// indented prints each line of an error on its own line.
type indented struct{ error }

func (e indented) Error() string { return "\n  " + strings.ReplaceAll(e.error.Error(), "\n", "\n  ") }
func (e indented) Unwrap() error { return e.error }

// log returns a logger that writes to standard error in the configured format. Repeated lines are
// folded unless log.level is debug.
func (a *app) log(c *config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // config has checked it
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(a.io.err, o)
	if c.Log.Format == "json" {
		h = slog.NewJSONHandler(a.io.err, o)
	}
	if level > slog.LevelDebug {
		h = fold.New(h)
	}
	return slog.New(h)
}

// connectWithin bounds how long a verb waits for the first broker.
const connectWithin = 6 * time.Second

// kafka connects to the brokers. The client logs nothing unless log.level is debug: the verb
// reports a failure itself, once.
func (a *app) kafka(ctx context.Context, c *config.Config, extra ...kgo.Opt) (*kgo.Client, error) {
	var log *slog.Logger
	if c.Log.Level == "debug" {
		log = a.log(c)
	}
	opts, err := kafkaconn.Options(c, "waterclock-cli", log)
	if err != nil {
		return nil, err
	}
	return kafkaconn.Connect(ctx, c, connectWithin, append(opts, extra...)...)
}

// kafkaReader connects to read what is committed. Control records count, because they too show how
// far a reader has come.
func (a *app) kafkaReader(ctx context.Context, c *config.Config, extra ...kgo.Opt) (*kgo.Client, error) {
	opts := []kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(time.Second),
	}
	return a.kafka(ctx, c, append(opts, extra...)...)
}

// note prints a message to standard error, so that scripts that read standard output do not see
// it.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.io.err, cleanLines(fmt.Sprintf(format, args...)))
}

// readArgument returns the value of a flag: the text itself, the content of @file, or standard
// input for "-". inFile is false if the text was on the command line.
func (a *app) readArgument(arg string) (content []byte, inFile bool, err error) {
	switch {
	case arg == "-":
		content, err = io.ReadAll(a.io.in)
		return content, true, err
	case strings.HasPrefix(arg, "@"):
		content, err = os.ReadFile(arg[1:])
		return content, true, err
	}
	return []byte(arg), false, nil
}
