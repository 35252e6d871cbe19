package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaCluster is a running Kafka. Nodes count from 1.
type KafkaCluster struct {
	// Bootstrap is the plaintext listener of every node, comma-separated. With
	// Secure, whoever uses it is a super user.
	Bootstrap string
	// SASLSSL is the SASL_SSL listener of every node, and CA the PEM file its
	// certificates are signed by; both only with Secure.
	SASLSSL, CA string

	t testing.TB
	h *home // nil if the nodes are shared
	n []*node
}

// Kafka returns a running cluster: the shared one, or with any option one that
// only this test has. It fails the test if there is none to be had.
func Kafka(t testing.TB, opts ...KafkaOption) *KafkaCluster {
	t.Helper()
	skipShort(t, "Kafka")
	if len(opts) > 0 {
		return ownKafka(t, opts)
	}
	if addr := os.Getenv("WATERCLOCK_TEST_KAFKA"); addr != "" {
		return &KafkaCluster{Bootstrap: addr, t: t}
	}
	c, err := sharedKafka()
	if err != nil {
		t.Fatalf("services: Kafka: %v", err)
	}
	return &KafkaCluster{Bootstrap: c.Bootstrap, t: t}
}

// KafkaOption asks for a cluster of the test's own.
type KafkaOption func(*kafkaSettings)

type kafkaSettings struct {
	nodes int
	env   []string
	props []string
}

// Own asks for a cluster of one node that the test may kill.
func Own() KafkaOption { return func(*kafkaSettings) {} }

// Nodes asks for n nodes, 1 or 3. With 3, topics get replication factor 3 and
// min.insync.replicas 2.
func Nodes(n int) KafkaOption { return func(s *kafkaSettings) { s.nodes = n } }

// Secure adds a SASL_SSL listener (SCRAM-SHA-512) and ACLs. The users are admin,
// a super user, and engine and intruder, who may do nothing until an ACL says
// so; their passwords are <user>-secret.
func Secure() KafkaOption {
	return func(s *kafkaSettings) { s.env = append(s.env, "SECURE=1") }
}

// Namespaces puts each node into a network namespace, for Isolate, Cut and Guest. It needs
// root.
func Namespaces() KafkaOption {
	return func(s *kafkaSettings) { s.env = append(s.env, "NETNS=1") }
}

// Disk gives each node's data a file system of this size, such as 512m, for FillDisk. It
// needs root.
func Disk(size string) KafkaOption {
	return func(s *kafkaSettings) { s.env = append(s.env, "KAFKA_DISK="+size) }
}

// Version asks for nodes of another version than the kit's own, for Upgrade.
func Version(v string) KafkaOption {
	return func(s *kafkaSettings) { s.env = append(s.env, "KAFKA_VERSION="+v) }
}

// Property sets a line of every node's server.properties.
func Property(key, value string) KafkaOption {
	return func(s *kafkaSettings) { s.props = append(s.props, key+"="+value) }
}

// sharedKafka starts the binary's own node once. It is never stopped: it dies
// with the process.
var sharedKafka = sync.OnceValues(func() (*KafkaCluster, error) { return startKafka(nil) })

func ownKafka(t testing.TB, opts []KafkaOption) *KafkaCluster {
	t.Helper()
	c, err := startKafka(opts)
	if err != nil {
		t.Fatalf("services: Kafka: %v", err)
	}
	c.t = t
	t.Cleanup(c.destroy)
	return c
}

// startKafka starts a cluster. Its ports were free when they were chosen; a process that took
// one since is the one reason to choose others.
func startKafka(opts []KafkaOption) (c *KafkaCluster, err error) {
	for range 3 {
		c, err = startKafkaOnce(opts)
		if !errors.Is(err, errDied) || !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	return c, err
}

func startKafkaOnce(opts []KafkaOption) (*KafkaCluster, error) {
	// Set, so that nothing comes from the environment of this process.
	s := kafkaSettings{nodes: 1, env: []string{"KAFKA_PORTS=", "SECURE=0", "NETNS=0", "NET=", "KAFKA_DISK="}}
	for _, o := range opts {
		o(&s)
	}
	h, err := newHome(append(s.env,
		"NODES="+strconv.Itoa(s.nodes),
		"KAFKA_EXTRA="+strings.Join(s.props, ";"))...)
	if err != nil {
		return nil, err
	}
	vars, err := h.script("kafka.sh", "prepare")
	if err != nil {
		h.remove()
		return nil, err
	}
	c := &KafkaCluster{
		Bootstrap: vars["WATERCLOCK_TEST_KAFKA"],
		SASLSSL:   vars["WATERCLOCK_TEST_KAFKA_SASL_SSL"],
		CA:        vars["WATERCLOCK_TEST_KAFKA_CA"],
		h:         h,
		n:         make([]*node, s.nodes),
	}
	if err := c.startAll(); err != nil {
		c.destroy()
		return nil, err
	}
	return c, nil
}

// startAll starts the nodes at once, since a quorum needs a majority.
func (c *KafkaCluster) startAll() error {
	for i := range c.n {
		if err := c.launch(i + 1); err != nil {
			return err
		}
	}
	for i := range c.n {
		if err := c.awaitNode(i + 1); err != nil {
			return err
		}
	}
	return nil
}

func (c *KafkaCluster) launch(n int) (err error) {
	c.n[n-1], err = c.h.start(syscall.SIGKILL, nil, "kafka.sh", "run", strconv.Itoa(n))
	return err
}

// awaitNode waits until node n has started by its own word and the cluster
// lists it at the address it answers on.
func (c *KafkaCluster) awaitNode(n int) error {
	dir := filepath.Join(c.h.dir, "kafka", fmt.Sprint("node-", n), "logs")
	addr := strings.Split(c.Bootstrap, ",")[n-1]
	err := c.n[n-1].await(90*time.Second, func() error {
		log, err := os.ReadFile(filepath.Join(dir, "server.log"))
		if err != nil || !strings.Contains(string(log), "Kafka Server started") {
			return fmt.Errorf("it has not said that it started (%v)", err) //nolint:errorlint // it may be nil
		}
		return listed(addr, n)
	}, filepath.Join(dir, "stdout.log"), filepath.Join(dir, "server.log"))
	if err != nil {
		return fmt.Errorf("node %d: %w", n, err)
	}
	return nil
}

// listed asks the node at addr whether node n belongs to the cluster.
func listed(addr string, n int) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	brokers, err := kadm.NewClient(cl).ListBrokers(ctx)
	if err != nil {
		return err
	}
	for _, b := range brokers {
		if int(b.NodeID) == n && net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))) == addr {
			return nil
		}
	}
	return fmt.Errorf("node %d is not among the brokers %v", n, brokers.NodeIDs())
}

// destroy kills what runs and removes the data.
func (c *KafkaCluster) destroy() {
	for _, n := range c.n {
		if n != nil && n.alive() {
			_ = n.stop(syscall.SIGKILL, time.Minute)
		}
	}
	_, _ = c.h.script("kafka.sh", "clean") // the namespaces; the rest is gone with the home
	c.h.remove()
}

// KafkaJars returns the directory with the jars of the broker, which contain the Java
// client. Beside it, test/setup.sh keeps the clients of other languages.
func KafkaJars() (string, error) {
	h, err := newHome()
	if err != nil {
		return "", err
	}
	defer h.remove()
	vars, err := h.script("fetch.sh", "kafka")
	return vars["JARS"], err
}

// Python is the interpreter of a virtual environment that test/setup.sh makes: "venv" has the
// clients of Kafka and HTTP, "venv-data" what reads exports.
func Python(t testing.TB, venv string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs what test/setup.sh installs")
	}
	jars, err := KafkaJars()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(jars), venv, "bin", "python")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%v; type  make setup", err)
	}
	return file
}

func skipShort(t testing.TB, what string) {
	if testing.Short() {
		t.Skipf("needs a real %s, which -short leaves out", what)
	}
}
