package templates_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/waterclock/waterclock/sinks/notify/templates"
)

func Example() {
	dir, err := os.MkdirTemp("", "templates")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	_ = os.WriteFile(filepath.Join(dir, "pills.tmpl"), []byte(`
{{ define "title" }}Pills for {{ .Data.name }}{{ end }}
{{ define "body" }}Take {{ .Data.count }}.{{ end }}`), 0o600)
	set, err := templates.Load(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := set.Render("pills", templates.Input{
		Channel: "push", Data: map[string]any{"name": "Ann", "count": 2},
	})
	fmt.Println(text.Title, "-", text.Body, err)
	// Output: Pills for Ann - Take 2. <nil>
}
