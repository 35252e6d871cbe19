package services

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gocql/gocql"
)

// CassandraNode is a running Cassandra.
type CassandraNode struct {
	// Hosts is what gocql.NewCluster takes: host:port of each node.
	Hosts []string

	t testing.TB
	h *home // nil if the node is shared
	n *node
}

// Cassandra returns the shared node. It fails the test if there is none to be had.
func Cassandra(t testing.TB) *CassandraNode {
	t.Helper()
	skipShort(t, "Cassandra")
	if hosts := os.Getenv("WATERCLOCK_TEST_CASSANDRA"); hosts != "" {
		return &CassandraNode{Hosts: strings.Split(hosts, ","), t: t}
	}
	c, err := sharedCassandra()
	if err != nil {
		t.Fatalf("services: Cassandra: %v", err)
	}
	return &CassandraNode{Hosts: c.Hosts, t: t}
}

// OwnCassandra returns a node that only this test has, and may kill: what it has acknowledged stays.
func OwnCassandra(t testing.TB) *CassandraNode {
	t.Helper()
	skipShort(t, "Cassandra")
	c, err := startCassandra("CASSANDRA_SYNC=batch")
	if err != nil {
		t.Fatalf("services: Cassandra: %v", err)
	}
	c.t = t
	t.Cleanup(c.destroy)
	return c
}

// Kill9 kills the node as a power cut would.
func (c *CassandraNode) Kill9() {
	c.t.Helper()
	c.must("kill", c.own().stop(syscall.SIGKILL, time.Minute))
}

// Restart starts a killed node again on its old data, and returns when it serves.
func (c *CassandraNode) Restart() {
	c.t.Helper()
	if c.own().alive() {
		c.must("stop", c.n.stop(syscall.SIGTERM, time.Minute))
	}
	c.must("restart", c.launch())
}

// Pause freezes the node until Cont.
func (c *CassandraNode) Pause() {
	c.t.Helper()
	c.must("pause", c.own().signal(syscall.SIGSTOP))
}

// Cont lets a paused node go on.
func (c *CassandraNode) Cont() {
	c.t.Helper()
	c.must("continue", c.own().signal(syscall.SIGCONT))
}

// Nodetool runs Cassandra's own tool on the node.
func (c *CassandraNode) Nodetool(args ...string) {
	c.t.Helper()
	c.own()
	_, err := c.h.script("cassandra.sh", append([]string{"nodetool"}, args...)...)
	c.must("nodetool "+args[0], err)
}

// DataDir has a directory for each keyspace.
func (c *CassandraNode) DataDir() string {
	c.t.Helper()
	c.own()
	return filepath.Join(c.h.dir, "cassandra", "data")
}

var sharedCassandra = sync.OnceValues(func() (*CassandraNode, error) { return startCassandra() })

func startCassandra(env ...string) (*CassandraNode, error) {
	h, err := newHome(append(env, "CASSANDRA_PORTS=")...)
	if err != nil {
		return nil, err
	}
	vars, err := h.script("cassandra.sh", "prepare")
	if err != nil {
		h.remove()
		return nil, err
	}
	c := &CassandraNode{Hosts: strings.Split(vars["WATERCLOCK_TEST_CASSANDRA"], ","), h: h}
	if err := c.launch(); err != nil {
		c.destroy()
		return nil, err
	}
	return c, nil
}

// launch starts the process and waits for an answer to CQL.
func (c *CassandraNode) launch() (err error) {
	if c.n, err = c.h.start(syscall.SIGKILL, nil, "cassandra.sh", "run"); err != nil {
		return err
	}
	log := filepath.Join(c.h.dir, "cassandra", "logs", "stdout.log")
	return c.n.await(3*time.Minute, func() error { return answersCQL(c.Hosts[0]) }, log)
}

func answersCQL(host string) error {
	cfg := gocql.NewCluster(host)
	cfg.ConnectTimeout, cfg.Timeout = 2*time.Second, 5*time.Second
	cfg.ProtoVersion = 4
	cfg.NumConns = 1
	cfg.Logger = quiet{}
	s, err := cfg.CreateSession()
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Query("SELECT release_version FROM system.local").Exec()
}

// quiet drops gocql's complaints about a node that is still starting.
type quiet struct{}

func (quiet) Print(...any)          {}
func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

func (c *CassandraNode) destroy() {
	if c.n != nil && c.n.alive() {
		_ = c.n.stop(syscall.SIGKILL, time.Minute)
	}
	c.h.remove()
}

func (c *CassandraNode) own() *node {
	c.t.Helper()
	if c.h == nil {
		c.t.Fatalf("services: this Cassandra is shared with other tests; ask for services.OwnCassandra(t)")
	}
	return c.n
}

func (c *CassandraNode) must(verb string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("services: %s Cassandra: %v", verb, err)
	}
}
