package foreign

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/waterclock/waterclock/test/services"
)

//go:embed clients
var programs embed.FS

// find looks for all four clients, with their programs copied to dir, and says
// everything that is missing.
func find(dir string) ([]Client, error) {
	jars, err := services.KafkaJars()
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, programs); err != nil {
		return nil, fmt.Errorf("copy programs: %w", err)
	}
	program := func(name string) string { return filepath.Join(dir, "clients", name) }
	cache := filepath.Dir(jars) // where test/setup.sh puts things
	python := filepath.Join(cache, "venv", "bin", "python")
	modules, noNode := NodeModules("kafkajs", "cloudevents")

	_, noKcat := exec.LookPath("kcat")
	_, noPython := os.Stat(python)
	if err := errors.Join(noKcat, noPython, noNode); err != nil {
		return nil, err
	}
	return []Client{
		kcat{},
		script{name: "python", command: []string{python, program("client.py")}},
		script{
			name:    "node",
			command: []string{"node", program("client.cjs")},
			env:     []string{"NODE_PATH=" + modules, "KAFKAJS_NO_PARTITIONER_WARNING=1"},
		},
		script{
			name: "java",
			// Short-lived: the second compiler would never pay for itself.
			command: []string{
				"java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars + "/*",
				program("Client.java"),
			},
		},
	}, nil
}
