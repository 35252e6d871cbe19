// Package compose checks docker-compose.yml and the Dockerfile where there is
// no Docker: that Compose loads them, that Waterclock accepts the settings, that
// Kafka knows its own, and that nothing runs as root or floats between versions.
package compose

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/test/services"
)

const root = "../.."

// secrets are what who starts it has to bring.
var secrets = types.Mapping{
	"WATERCLOCK_API_KEY": "0123456789012345678901234567890123456789", "POSTGRES_PASSWORD": "secret-of-postgres",
}

func load(t *testing.T) *types.Project {
	t.Helper()
	project, err := loadWith(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func loadWith(env types.Mapping) (*types.Project, error) {
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  root,
		ConfigFiles: []types.ConfigFile{{Filename: root + "/docker-compose.yml"}},
		Environment: env,
	})
}

// Nothing has a key or a password that everybody knows: who does not set one is
// told so.
func TestNoSecretHasADefault(t *testing.T) {
	for left := range secrets {
		env := types.Mapping{}
		for name, value := range secrets {
			if name != left {
				env[name] = value
			}
		}
		for _, value := range []string{"unset", ""} {
			if value == "" {
				env[left] = ""
			}
			if _, err := loadWith(env); err == nil || !strings.Contains(err.Error(), left) {
				t.Errorf("%s %q: %v", left, value, err)
			}
		}
	}
}

// ours are the services that run our image.
func ours(t *testing.T) []types.ServiceConfig {
	t.Helper()
	var found []types.ServiceConfig
	for _, s := range load(t).Services {
		if s.Build != nil {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		t.Fatal("no service runs our image")
	}
	return found
}

func TestServicesAreThere(t *testing.T) {
	for name, s := range load(t).Services {
		t.Run(name, func(t *testing.T) {
			if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes == 0 {
				t.Error("no memory limit")
			}
			if s.Restart != "no" && s.HealthCheck == nil {
				t.Error("no health check")
			}
			for on, d := range s.DependsOn {
				if d.Condition == types.ServiceConditionStarted {
					t.Errorf("depends on %s having started, not on its being of use", on)
				}
			}
			for _, p := range s.Ports {
				if !net.ParseIP(p.HostIP).IsLoopback() {
					t.Errorf("port %s is published beyond loopback, on %q", p.Published, p.HostIP)
				}
			}
		})
	}
}

// A tag with a patch version, for people ("latest", "5" and "17-alpine" move), and
// the digest, which is what is run.
var pinned = regexp.MustCompile(`^[a-z/]+:\d+\.\d+(\.\d+)?(-[a-z]+)?@sha256:[0-9a-f]{64}$`)

func TestImagesArePinned(t *testing.T) {
	var images []string
	for _, s := range load(t).Services {
		if s.Build == nil {
			images = append(images, s.Image)
		}
	}
	for _, line := range dockerfile(t, "FROM") {
		if image := strings.Fields(line)[1]; image != "scratch" {
			images = append(images, image)
		}
	}
	if len(images) < 5 {
		t.Fatalf("found only %v", images)
	}
	for _, image := range images {
		if !pinned.MatchString(image) {
			t.Errorf("%s is no fixed version", image)
		}
	}
}

func TestVersionsAreThoseTested(t *testing.T) {
	common, err := os.ReadFile(root + "/test/services/common.sh")
	if err != nil {
		t.Fatal(err)
	}
	services := load(t).Services
	for _, c := range []struct{ service, variable string }{
		{"kafka", "KAFKA_VERSION"},
		{"cassandra", "CASSANDRA_VERSION"},
	} {
		tested := regexp.MustCompile(c.variable + `:-([0-9.]+)`).FindStringSubmatch(string(common))
		tag, _, _ := strings.Cut(services[c.service].Image, "@")
		if tested == nil || !strings.HasSuffix(tag, ":"+tested[1]) {
			t.Errorf("%s runs %s, the tests %v", c.service, services[c.service].Image, tested)
		}
	}
}

func TestSettingsAreAccepted(t *testing.T) {
	for _, s := range ours(t) {
		t.Run(s.Name, func(t *testing.T) {
			var env []string
			mounted := mount(t, s)
			for name, value := range s.Environment {
				env = append(env, name+"="+mounted.Replace(*value))
			}
			c, err := config.Load(config.Options{Env: env, Flags: flags(s.Command)})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range c.Warnings {
				t.Error(w)
			}
			if slices.Contains(s.Command, "serve") {
				if err := c.CheckServe(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// mount writes the service's configs, and replaces their paths in the
// container by those written to.
func mount(t *testing.T, s types.ServiceConfig) *strings.Replacer {
	t.Helper()
	configs := load(t).Configs
	var paths []string
	for _, c := range s.Configs {
		here := filepath.Join(t.TempDir(), c.Source)
		if err := os.WriteFile(here, []byte(configs[c.Source].Content), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, c.Target, here)
	}
	return strings.NewReplacer(paths...)
}

// flags are the settings of a command line: --roles a,b.
func flags(command []string) map[string]string {
	out := map[string]string{}
	for i, word := range command {
		if name, ok := strings.CutPrefix(word, "--"); ok && i+1 < len(command) {
			out[name] = command[i+1]
		}
	}
	return out
}

func TestOursIsHarmless(t *testing.T) {
	for _, s := range ours(t) {
		t.Run(s.Name, func(t *testing.T) {
			if uid, _, _ := strings.Cut(s.User, ":"); uid == "" || uid == "0" || uid == "root" {
				t.Errorf("runs as %q", s.User)
			}
			if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") ||
				!slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
				t.Error("may write to its image or gain privileges")
			}
		})
	}
	users := dockerfile(t, "USER")
	if len(users) != 1 || !regexp.MustCompile(`^USER [1-9]\d*:[1-9]\d*$`).MatchString(users[0]) {
		t.Errorf("the Dockerfile's users are %q, want one that is not root, by number", users)
	}
}

// dockerfile returns the lines with one instruction.
func dockerfile(t *testing.T, instruction string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, instruction+" ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// The image turns KAFKA_A_B into a.b and passes on whatever comes out: a
// misspelled setting would go unnoticed. A broker says which ones exist.
func TestKafkaKnowsItsSettings(t *testing.T) {
	known := brokerSettings(t)
	for name, value := range load(t).Services["kafka"].Environment {
		setting, ok := strings.CutPrefix(name, "KAFKA_")
		if !ok || name == "KAFKA_HEAP_OPTS" {
			continue
		}
		setting = strings.ReplaceAll(strings.ToLower(setting), "_", ".")
		if !known[setting] {
			t.Errorf("%s means %s=%s, which Kafka does not know", name, setting, *value)
		}
	}
	if v := load(t).Services["kafka"].Environment["KAFKA_ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS"]; v == nil ||
		*v != "1" {
		t.Error("add.partitions.to.txn.retry.backoff.ms is not 1: every turn would wait for it")
	}
}

func brokerSettings(t *testing.T) map[string]bool {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(services.Kafka(t).Bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	configs, err := kadm.NewClient(cl).DescribeBrokerConfigs(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range configs[0].Configs {
		known[c.Key] = true
	}
	if len(known) < 100 {
		t.Fatalf("the broker listed only %d settings: %v", len(known), configs[0].Err)
	}
	return known
}
