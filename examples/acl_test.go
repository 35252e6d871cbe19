package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/test/services"
)

// TestACLGuide gives a user what docs/operations/kafka.md says an engine
// needs, and nothing else, and runs one: it makes its topics, fires, and
// doctor finds nothing denied. Without the lines it must not start.
func TestACLGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	k := services.Kafka(t, services.Secure())
	d := &dev{bin: waterclock(t)}
	settings := []string{"--brokers", k.SASLSSL, "--data-dir", filepath.Join(t.TempDir(), "data"), "--set", "topics.partitions=2",
		"--set", "kafka.tls.enabled=true", "--set", "kafka.tls.ca=" + k.CA,
		"--set", "kafka.sasl.mechanism=SCRAM-SHA-512", "--set", "kafka.sasl.user=engine", "--set", "kafka.sasl.password=engine-secret"}
	run := func(args ...string) (string, error) {
		out, err := d.command(t, d.bin, append(args, settings...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("topics", "apply"); err == nil || !strings.Contains(out, "AUTHORIZATION") {
		t.Fatalf("without ACLs: %v\n%s", err, out)
	}
	allow(t, k.Bootstrap, "User:engine", guide(t, "User:waterclock"))
	if out, err := run("topics", "apply"); err != nil {
		t.Fatalf("topics apply: %v\n%s", err, out)
	}
	serve := exec.Command(d.bin, append([]string{"serve", "--roles", "engine,api", "--listen", "127.0.0.1:0"}, settings...)...)
	serve.Env, serve.Stderr = clean(), os.Stderr
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Signal(syscall.SIGTERM); _ = serve.Wait() })
	if out, err := run("schedule", "a", "--in", "1s", "--channel", "kitchen", "--decision-timeout", "40s", "--wait", "-o", "ndjson"); err != nil || !strings.Contains(out, "occurrence.fired") {
		t.Fatalf("schedule: %v\n%s", err, out)
	}
	if out, _ := run("doctor"); strings.Contains(out, "AUTHORIZATION") || !strings.Contains(out, "retry pause") {
		t.Errorf("doctor says\n%s", out)
	}
}

// grant is one line of the guide.
type grant struct {
	kind, name string // --topic waterclock.
	prefixed   bool
	ops        []kadm.ACLOperation
}

// guide reads the acl lines of a principal.
func guide(t *testing.T, principal string) (out []grant) {
	text := strings.ReplaceAll(read(t, operations+"kafka.md"), "\\\n", " ")
	resource := regexp.MustCompile(`--(topic|group|transactional-id|cluster) ?([a-z.-]*)`)
	op := regexp.MustCompile(`--operation (\w+)`)
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "acl --allow-principal "+principal+" ") {
			continue
		}
		on := resource.FindStringSubmatch(line)
		g := grant{kind: on[1], name: strings.Trim(on[2], " "), prefixed: strings.Contains(line, "prefixed")}
		for _, m := range op.FindAllStringSubmatch(line, -1) {
			parsed, err := kmsg.ParseACLOperation(m[1])
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			g.ops = append(g.ops, parsed)
		}
		out = append(out, g)
	}
	if len(out) < 5 || !slices.ContainsFunc(out, func(g grant) bool { return g.kind == "transactional-id" }) {
		t.Fatalf("only %d lines of %s found", len(out), principal)
	}
	return out
}

// allow grants to a principal as the broker's super user.
func allow(t *testing.T, bootstrap, principal string, grants []grant) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, g := range grants {
		b := kadm.NewACLs().Allow(principal).AllowHosts("*").Operations(g.ops...)
		if g.prefixed {
			b = b.ResourcePatternType(kadm.ACLPatternPrefixed)
		}
		switch g.kind {
		case "topic":
			b = b.Topics(g.name)
		case "group":
			b = b.Groups(g.name)
		case "transactional-id":
			b = b.TransactionalIDs(g.name)
		case "cluster":
			b = b.Clusters()
		}
		if err := b.ValidateCreate(); err != nil {
			t.Fatalf("%+v: %v", g, err)
		}
		results, err := kadm.NewClient(cl).CreateACLs(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatalf("%+v: %v", g, r.Err)
			}
		}
	}
}
