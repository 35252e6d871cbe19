package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/metrics"
	"github.com/waterclock/waterclock/sinks/notify/templates"
	"github.com/waterclock/waterclock/trigger"
)

// notifyNode returns a node with settings, with nothing opened.
func notifyNode(t *testing.T, dev bool, set map[string]string) *node {
	t.Helper()
	c, err := config.Load(config.Options{Dev: dev, Flags: set})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{
		cfg: c, log: slog.New(slog.DiscardHandler), metrics: metrics.New(),
		timetable: &trigger.Timetable{Zones: calendar.Embedded()},
	}
	t.Cleanup(n.closeNotify)
	return n
}

// dev runs the channels that have a provider, and no others.
func TestDevRunsProviders(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"providers.outbox.dir": filepath.Join(t.TempDir(), "x")}, "push sms email"},
		{map[string]string{
			"providers.twilio.account_sid": "AC0123456789abcdef0123456789abcdef", "providers.twilio.auth_token": "x",
			"providers.twilio.from": "+15017122661",
		}, "sms"},
		{map[string]string{"providers.smtp.host": "localhost", "providers.smtp.from": "a@b.example"}, "email"},
	} {
		n := notifyNode(t, true, c.set)
		runProviders(n.cfg)
		if err := n.openNotify(); err != nil {
			t.Fatal(err)
		}
		var channels []string
		for _, name := range []string{"push", "sms", "email"} {
			if n.notifiers != nil && n.notifiers.workers[name] != nil {
				channels = append(channels, name)
			}
		}
		if got := strings.Join(channels, " "); got != c.want {
			t.Errorf("%v: runs %q, want %q", c.set, got, c.want)
		}
		if served := n.served(); len(served) != 1+len(channels) {
			t.Errorf("makes the topics of %v", served)
		}
	}
}

// Changed templates are loaded. Wrong ones leave the old ones in force.
func TestReloadTemplates(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.tmpl", `{{ define "title" }}one{{ end }}`)
	n := notifyNode(t, true, map[string]string{"templates.dir": dir, "providers.outbox.dir": filepath.Join(dir,
		"outbox")})
	runProviders(n.cfg)
	if err := n.openNotify(); err != nil {
		t.Fatal(err)
	}
	r := newReloads(n.log, subject{name: "templates.dir", files: []string{dir}, load: n.loadTemplates})
	title := func(id string) string {
		text, err := n.notifiers.texts.Load().Render(id, templates.Input{})
		if err != nil {
			return err.Error()
		}
		return text.Title
	}
	write("a.tmpl", `{{ define "title" }}two{{ end }}`)
	if got := title("a"); got != "one" {
		t.Errorf("before: %s", got)
	}
	r.check(false)
	if got := title("a"); got != "two" {
		t.Errorf("changed: %s", got)
	}
	write("b.tmpl", `{{ define "title" }}new{{ end }}`)
	r.check(false)
	if got := title("b"); got != "new" {
		t.Errorf("added: %s", got)
	}
	write("b.tmpl", `{{ define "title" }}`)
	write("a.tmpl", `{{ define "title" }}three{{ end }}`)
	r.check(false)
	if got := title("a") + title("b"); got != "twonew" {
		t.Errorf("wrong ones: %s", got)
	}
	if err := os.Remove(filepath.Join(dir, "b.tmpl")); err != nil {
		t.Fatal(err)
	}
	r.check(false)
	if got := title("a"); got != "three" || !strings.Contains(title("b"), "no template") {
		t.Errorf("mended: %s, %s", got, title("b"))
	}
}

// At the start, wrong templates are an error with file and line.
func TestWrongTemplatesAtStart(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.tmpl"), []byte("{{ define \"title\" }}\n{{ nope }}{{ end }}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	n := notifyNode(t, true, map[string]string{"templates.dir": dir, "providers.outbox.dir": filepath.Join(dir,
		"outbox")})
	runProviders(n.cfg)
	if err := n.openNotify(); err == nil || !strings.Contains(err.Error(), "a.tmpl:2") {
		t.Errorf("got %v", err)
	}
}
