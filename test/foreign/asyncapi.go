package foreign

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/waterclock/waterclock/test/services"
)

// AsyncAPI is what the official parser makes of a document.
type AsyncAPI struct {
	Channels   int      `json:"channels"`
	Operations int      `json:"operations"`
	Examples   int      `json:"examples"`
	Faults     []string `json:"faults"` // errors and warnings
}

// ParseAsyncAPI lets the AsyncAPI project's parser judge a document: the
// specification's schema, its rules, and with it examples against their
// schemas.
func ParseAsyncAPI(t testing.TB, ctx context.Context, document []byte) (found AsyncAPI) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Node, which -short leaves out")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, programs); err != nil {
		t.Fatal(err)
	}
	modules, err := NodeModules("@asyncapi/parser")
	if err != nil {
		t.Fatalf("foreign: %v; type  make setup", err)
	}
	out, err := run(ctx, []string{"NODE_PATH=" + modules}, document, "node",
		filepath.Join(dir, "clients", "asyncapi.cjs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return found
}

// NodeModules is the directory that has all of the modules.
func NodeModules(names ...string) (string, error) {
	jars, err := services.KafkaJars()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(jars), "node", "node_modules") // where test/setup.sh puts them
	if _, err := exec.LookPath("node"); err != nil {
		return "", err
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return "", fmt.Errorf("node module %s: %w", name, err)
		}
	}
	return dir, nil
}
