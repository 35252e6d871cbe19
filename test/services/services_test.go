package services

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
)

func TestKafkaCommitsAndAborts(t *testing.T) {
	roundTrip(t, Kafka(t).Bootstrap, 1)
}

func TestKafkaComesBackFromKill9AndPause(t *testing.T) {
	k := Kafka(t, Own(), Property("num.partitions", "2"))
	topic := roundTrip(t, k.Bootstrap, 1)

	k.Kill9(1)
	if err := listed(k.Bootstrap, 1); err == nil {
		t.Fatal("a killed node still answers")
	}
	k.Restart(1)
	if got := committed(t, k.Bootstrap, topic, 2); len(got) != 2 {
		t.Fatalf("after kill -9 and restart %d records are left of 2", len(got))
	}

	k.Pause(1)
	if err := listed(k.Bootstrap, 1); err == nil {
		t.Fatal("a paused node still answers")
	}
	k.Cont(1)
	// A node that was paused for longer than broker.session.timeout.ms, as on a
	// loaded machine, is fenced, and no broker to anybody, until it has told the
	// controller that it lives.
	eventually(t, "a node that goes on is a broker again", func() bool { return listed(k.Bootstrap, 1) == nil })
}

func TestCassandraKeepsRows(t *testing.T) {
	s := session(t, Cassandra(t).Hosts)
	keyspace := fmt.Sprint("services_", time.Now().UnixNano())
	for _, q := range []string{
		"CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE " + keyspace + ".rows (k text PRIMARY KEY, v map<text, text>)",
		"UPDATE " + keyspace + ".rows USING TIMESTAMP 2 SET v['a'] = 'new' WHERE k = 'x'",
		"UPDATE " + keyspace + ".rows USING TIMESTAMP 1 SET v['a'] = 'old', v['b'] = 'kept' WHERE k = 'x'",
	} {
		if err := s.Query(q).Exec(); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	t.Cleanup(func() { _ = s.Query("DROP KEYSPACE " + keyspace).Exec() })

	var v map[string]string
	if err := s.Query("SELECT v FROM " + keyspace + ".rows WHERE k = 'x'").Scan(&v); err != nil {
		t.Fatal(err)
	}
	if v["a"] != "new" || v["b"] != "kept" || len(v) != 2 {
		t.Fatalf("got %v, want the newer a and b", v)
	}
}

func TestPostgresAnswers(t *testing.T) {
	out, err := exec.Command("psql", Postgres(t), "-Atc", "SELECT current_user, 6 * 7").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "waterclock|42" {
		t.Fatalf("psql said %q, %v", got, err)
	}
}

// A node must not outlive a test process that is killed, nor its data.
func TestNodesDieWithTheTest(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real PostgreSQL, which -short leaves out")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "WATERCLOCK_TEST_POSTGRES=", "SERVICES_HELPER=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := onThatThread(cmd.Start); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()

	var pid int
	var dir string
	lines := bufio.NewScanner(out)
	for pid == 0 && lines.Scan() {
		fmt.Sscanf(lines.Text(), "up %d %s", &pid, &dir)
	}
	if pid == 0 {
		t.Fatal("the helper process started no node")
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the node does not run: %v", err)
	}

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the node is gone", func() bool { return gone(pid) })
	eventually(t, "its data is gone", func() bool { _, err := os.Stat(dir); return errors.Is(err, os.ErrNotExist) })
}

// TestHelperProcess is the process that TestNodesDieWithTheTest kills.
func TestHelperProcess(t *testing.T) {
	if os.Getenv("SERVICES_HELPER") == "" {
		return
	}
	Postgres(t)
	homes.Range(func(h, _ any) bool {
		dir := h.(*home).dir
		pid, err := os.ReadFile(dir + "/postgres/data/postmaster.pid")
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(pid), "\n")
		fmt.Println("up", first, dir)
		return true
	})
	select {} // until we are killed
}

func TestMissingToolIsNamed(t *testing.T) {
	for _, c := range []struct{ name, script, env, want string }{
		{"java for Kafka", "kafka.sh", "JAVA=/nowhere/java", "apt-get install -y openjdk-17-jdk-headless"},
		{"java for Cassandra", "cassandra.sh", "JAVA=/nowhere/java", "apt-get install -y openjdk-17-jdk-headless"},
		{"PostgreSQL", "postgres.sh", "PG_BIN=/nowhere", "apt-get install -y postgresql"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := newHome(c.env)
			if err != nil {
				t.Fatal(err)
			}
			defer h.remove()
			if _, err := h.script(c.script, "prepare"); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// roundTrip commits two records and aborts one between them, in a new topic,
// and checks that exactly the two are read.
func roundTrip(t *testing.T, bootstrap string, replicas int16, opts ...kgo.Opt) (topic string) {
	t.Helper()
	topic = "services-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	cl := client(t, bootstrap, append(opts, kgo.TransactionalID(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	ctx := testContext(t)
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, 1, replicas, nil, topic); err != nil {
		t.Fatalf("create topic: %v", err)
	}
	for _, txn := range []struct {
		value  string
		commit kgo.TransactionEndTry
	}{{"one", kgo.TryCommit}, {"never", kgo.TryAbort}, {"two", kgo.TryCommit}} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: topic, Value: []byte(txn.value)}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatalf("produce %s: %v", txn.value, err)
		}
		if err := producer.EndTransaction(ctx, cl, txn.commit, r); err != nil {
			t.Fatalf("end the transaction of %s: %v", txn.value, err)
		}
	}
	if got := committed(t, bootstrap, topic, 2, opts...); strings.Join(got, " ") != "one two" {
		t.Fatalf("read %q, want one and two", got)
	}
	return topic
}

// committed reads n values of a topic's committed records.
func committed(t *testing.T, bootstrap, topic string, n int, opts ...kgo.Opt) (values []string) {
	t.Helper()
	cl := client(t, bootstrap, append(opts, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))...)
	ctx := testContext(t)
	for len(values) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

func client(t *testing.T, bootstrap string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(strings.Split(bootstrap, ",")...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func session(t *testing.T, hosts []string) *gocql.Session {
	t.Helper()
	cfg := gocql.NewCluster(hosts...)
	cfg.Timeout, cfg.ConnectTimeout = 20*time.Second, 20*time.Second
	s, err := cfg.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// testContext ends what hangs, long after it should have been done.
func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(30*time.Second), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not within 30 s: %s", what)
		case <-tick.C:
		}
	}
}

// gone says that a process does not run; nobody may have waited for it yet.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// denied says that the brokers forbade it.
func denied(err error) bool {
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.TransactionalIDAuthorizationFailed)
}
