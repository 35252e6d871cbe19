package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

// apiSaying answers every path with the given status and text.
func apiSaying(t *testing.T, status int, text string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(status)
		fmt.Fprintln(w, text)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// doctorOf runs the doctor on brokers, with a healthy API and a data directory that may be
// created, unless args say otherwise.
func doctorOf(t *testing.T, brokers string, args ...string) result {
	t.Helper()
	all := []string{
		"doctor", "--brokers", brokers, "--url", apiSaying(t, 200, "ready"), "--data-dir",
		filepath.Join(t.TempDir(), "data"),
	}
	return cli(t, nil, "", append(all, args...)...)
}

// kafka starts a broker whose answers a test may change.
func kafka(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, string) {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, strings.Join(c.ListenAddrs(), ",")
}

func applied(t *testing.T, brokers string) {
	t.Helper()
	cli(t, nil, "", "--brokers", brokers, "topics", "apply", "--set", "topics.partitions=2").want(t, exitOK)
}

func TestDoctorFindsNothing(t *testing.T) {
	_, brokers := kafka(t)
	applied(t, brokers)
	r := doctorOf(t, brokers)
	r.want(t, exitOK, "2 partitions each", "LogAppendTime", "±", "no other producer has a transaction",
		"is ready",
		"does not exist yet")
	if strings.Contains(r.out, "fail ") {
		t.Errorf("something failed:\n%s", r.out)
	}
	doctorOf(t, brokers, "-o", "json", "--jq", `.[]|select(.check=="timestamps")|.status`).want(t, exitOK, "ok")
}

func TestDoctorWithoutKafka(t *testing.T) {
	r := doctorOf(t, nobody(t))
	r.want(t, exitFailed, "fail  brokers", "no broker answers", "checks failed", "data dir")
}

func TestDoctorOnTopics(t *testing.T) {
	for _, row := range []struct {
		name       string
		partitions int32
		configs    map[string]string
		args       []string
		code       int
		want       string
	}{
		{"nothing there", 0, nil, nil, exitOK, "Run `waterclock topics apply`, or let the engine"},
		{
			"nothing there and none will be made", 0, nil,
			[]string{"--set", "topics.manage=false"},
			exitFailed,
			"none of the topics waterclock.* exists",
		},
		{
			"state deletes by age", 2,
			map[string]string{"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"},
			nil, exitFailed, "deletion by age drops triggers",
		},
		{"another partition count", 3, map[string]string{
			"cleanup.policy":         "compact",
			"message.timestamp.type": "LogAppendTime",
		}, nil, exitFailed, "waterclock.state has 3 partitions, not 2"},
		{
			"producers' timestamps", 2,
			map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"},
			nil,
			exitOK, "message.timestamp.type of waterclock.state is CreateTime",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, brokers := kafka(t)
			if row.partitions > 0 {
				cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				configs := map[string]*string{}
				for k, v := range row.configs {
					configs[k] = &v
				}
				if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), row.partitions, 1, configs,
					"waterclock.state"); err != nil {
					t.Fatal(err)
				}
				commands := map[string]*string{
					"cleanup.policy":         ptr("compact,delete"),
					"message.timestamp.type": ptr("LogAppendTime"),
				}
				if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 1, commands,
					"waterclock.commands"); err != nil {
					t.Fatal(err)
				}
			}
			doctorOf(t, brokers, row.args...).want(t, row.code, row.want)
		})
	}
}

// A cluster that is being upgraded has no topic for the audit: that is no reason to stop.
func TestDoctorOnAMissingAudit(t *testing.T) {
	brokers := cluster(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopics(t.Context(), "waterclock.audit"); err != nil {
		t.Fatal(err)
	}
	for _, manage := range []string{"true", "false"} {
		doctorOf(t, brokers, "--set", "topics.manage="+manage).want(t, exitOK, "there is no topic waterclock.audit",
			"acts over HTTP are refused", "waterclock topics apply")
	}
	cli(t, nil, "", "--brokers", brokers, "topics", "apply").want(t, exitOK, "waterclock.audit")
}

func TestDoctorNamesForeignTransactions(t *testing.T) {
	_, brokers := kafka(t)
	applied(t, brokers)
	for _, id := range []string{"flink-sink-7", "waterclock-1"} { // the second one belongs to our engine
		cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.TransactionalID(id))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{
			Topic: "waterclock.commands", Key: []byte("k"),
			Value: []byte("{}"),
		}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r := doctorOf(t, brokers)
	r.want(t, exitOK, "warn  transactions", "flink-sink-7", "waterclock.commands", "barrier.max_hold")
	if strings.Contains(r.out, "waterclock-1)") {
		t.Errorf("our own transaction was called foreign:\n%s", r.out)
	}
}

func TestIsOwn(t *testing.T) {
	for id, want := range map[string]bool{
		"waterclock-3": true, "waterclock-": false, "waterclock-doctor": false,
		"other-3": false, "": false, "waterclock--1": false,
	} {
		if got := isOwn(id, "waterclock"); got != want {
			t.Errorf("isOwn(%q) is %v", id, got)
		}
	}
}

func TestDoctorOnTheRetryPause(t *testing.T) {
	c, brokers := kafka(t)
	applied(t, brokers)
	var pause atomic.Pointer[string] // the broker's goroutine reads it
	c.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r := req.(*kmsg.DescribeConfigsRequest)
		c.KeepControl()
		if len(r.Resources) == 0 || r.Resources[0].ResourceType != kmsg.ConfigResourceTypeBroker {
			return nil, nil, false
		}
		resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
		config := kmsg.NewDescribeConfigsResponseResourceConfig()
		config.Name, config.Value = retryPauseSetting, pause.Load()
		resource := kmsg.NewDescribeConfigsResponseResource()
		resource.ResourceType, resource.ResourceName = r.Resources[0].ResourceType, r.Resources[0].ResourceName
		resource.Configs = append(resource.Configs, config)
		resp.Resources = append(resp.Resources, resource)
		return resp, nil, true
	})
	for value, want := range map[string]string{"20": "20 ms on broker", "1": "is 1 ms or less"} {
		pause.Store(&value)
		doctorOf(t, brokers).want(t, exitOK, want)
	}
}

func TestDoctorOnOldBrokers(t *testing.T) {
	_, brokers := kafka(t, kfake.MaxVersions(kversion.V2_8_0()))
	doctorOf(t, brokers).want(t, exitFailed, "fail  versions", "does not support DescribeTransactions",
		"Kafka 3.0 or newer")
	_, brokers = kafka(t, kfake.MaxVersions(kversion.V3_0_0()))
	applied(t, brokers)
	doctorOf(t, brokers).want(t, exitOK, "ok    versions")
}

func TestDoctorOnClocks(t *testing.T) {
	for _, row := range []struct {
		name string
		off  time.Duration
		code int
		want string
	}{
		{"together", 0, exitOK, "ok    clock"},
		{"seconds apart", -5 * time.Second, exitOK, "warn  clock"},
		{"hours apart", 2 * time.Hour, exitFailed, "fail  clock"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, brokers := kafka(t)
			applied(t, brokers)
			c.ControlKey(int16(kmsg.DescribeTransactions), func(req kmsg.Request) (kmsg.Response, error, bool) {
				r := req.(*kmsg.DescribeTransactionsRequest)
				resp := r.ResponseKind().(*kmsg.DescribeTransactionsResponse)
				state := kmsg.NewDescribeTransactionsResponseTransactionState()
				state.TransactionalID, state.State, state.StartTimestamp = r.TransactionalIDs[0], "Ongoing",
					time.Now().Add(row.off).UnixMilli()
				resp.TransactionStates = append(resp.TransactionStates, state)
				return resp, nil, true
			})
			doctorOf(t, brokers).want(t, row.code, row.want)
		})
	}
}

// The doctor's transaction must neither hold up a read_committed reader nor deliver a record to
// it.
func TestReadingTheClockLeavesNothing(t *testing.T) {
	_, brokers := kafka(t)
	applied(t, brokers)
	doctorOf(t, brokers).want(t, exitOK, "ok    clock")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics("waterclock.rejected"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), &kgo.Record{
		Topic: "waterclock.rejected",
		Value: []byte("first"),
	}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if records := cl.PollFetches(ctx).Records(); len(records) != 1 || string(records[0].Value) != "first" {
		t.Errorf("a reader met %d records: %v", len(records), records)
	}
	admin := kadm.NewClient(cl)
	committed, err := admin.ListCommittedOffsets(ctx, "waterclock.rejected")
	if err != nil {
		t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(ctx, "waterclock.rejected")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(e kadm.ListedOffset) {
		if stable, _ := committed.Lookup(e.Topic, e.Partition); stable.Offset != e.Offset {
			t.Errorf("partition %d: stable to %d of %d: a transaction is still open", e.Partition, stable.Offset,
				e.Offset)
		}
	})
}

func TestDoctorOnTheAPI(t *testing.T) {
	broken := nobody(t)
	for _, row := range []struct {
		name, url string
		code      int
		want      string
	}{
		{"restoring", apiSaying(t, 503, "partition 3 is being restored"), exitFailed, "warn  api"},
		{"somebody else", apiSaying(t, 404, "nginx"), exitFailed, "so it is not Waterclock"},
		{"nobody", "http://" + nobody(t), exitFailed, "fail  api"},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, "", "doctor", "--brokers", broken, "--url", row.url, "--data-dir", t.TempDir()).want(t,
				row.code,
				row.want)
		})
	}
}

// With auth, /readyz is on admin.listen alone. That the API answers does not show that it is ready: the doctor asks
// that listener where its settings name it, without the key. Where it gets no answer it does not call the API ok.
func TestDoctorOnAnAPIWithAuth(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/openapi.json":
			fmt.Fprintln(w, "{}")
		case "/readyz":
			w.WriteHeader(http.StatusNotFound)
		default:
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	key := []string{"WATERCLOCK_API_KEY=a key of an operator"}
	for _, c := range []struct {
		name   string
		status int
		text   string
		listen func(address string) string
		want   []string
	}{
		{"not named", 200, "ready", func(string) string { return "" }, []string{
			"warn  api", s.URL + " answers. Whether it is ready is unknown", "--set admin.listen",
		}},
		{"ready", 200, "ready", nil, []string{"ok    api", " is ready"}},
		{"on all addresses", 200, "ready", func(address string) string {
			_, port, _ := net.SplitHostPort(address)
			return "0.0.0.0:" + port
		}, []string{"ok    api", " is ready"}},
		{"not ready", 503, "partition 1 is not ready", nil, []string{"warn  api", "partition 1 is not ready"}},
		{"notes", 200, "ready\nthere is no topic for the audit", nil, []string{
			"warn  api", "says: there is no topic for the audit",
		}},
		{"foreign name", 403, "", nil, []string{"warn  api", "is unknown", "refuses this name", "http.hosts"}},
		{"something else", 404, "", nil, []string{"warn  api", "is unknown", "status 404"}},
		{"gone", 0, "", func(string) string { return nobody(t) }, []string{
			"warn  api", "is unknown", "does not answer", "where that listener can be reached",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "" {
					t.Error("it sends its key where none is asked for")
				}
				w.WriteHeader(c.status)
				fmt.Fprintln(w, c.text)
			}))
			t.Cleanup(admin.Close)
			listen := admin.Listener.Addr().String()
			if c.listen != nil {
				listen = c.listen(listen)
			}
			r := cli(t, key, "", "doctor", "--brokers", nobody(t), "--url", s.URL, "--data-dir", t.TempDir(),
				"--set", "admin.listen="+listen)
			r.want(t, exitFailed, c.want...)
			if ok := strings.Contains(r.out, "ok    api"); ok != (c.status == 200 && c.listen == nil ||
				strings.HasPrefix(c.name, "on all")) {
				t.Errorf("is it ok? %t:\n%s", ok, r.out)
			}
		})
	}
}

// What the doctor says of min.insync.replicas. No advice may lead to a value that the doctor
// advises against.
func TestDoctorOnReplicas(t *testing.T) {
	for _, row := range []struct {
		topic     string
		replicas  int
		isr, want string // want is "" for nothing to say
	}{
		{"waterclock.state", 1, "1", "has one replica"},
		{"waterclock.state", 2, "1", "only one disk. Give it 3 replicas"},
		{"waterclock.state", 2, "2", "one broker down stops it. Give it 3 replicas"},
		{"waterclock.state", 3, "1", "only one disk. Set it to 2"},
		{"waterclock.state", 3, "2", ""},
		{"waterclock.state", 3, "3", "one broker down stops it. Set it to 2"},
		{"waterclock.due.orders", 2, "1", ""},
		{"waterclock.due.orders", 2, "2", "one broker down stops it. Set it to 1"},
		{"waterclock.due.orders", 3, "1", "only one disk. Set it to 2"},
		{"waterclock.due.orders", 3, "2", ""},
	} {
		t.Run(fmt.Sprintf("%s %s of %d", row.topic, row.isr, row.replicas), func(t *testing.T) {
			c, err := config.Load(config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			all := make([]int32, row.replicas)
			d := &doctor{c: c}
			d.replicasOf(kadm.TopicDetail{
				Topic: row.topic, Partitions: kadm.PartitionDetails{0: {Replicas: all, ISR: all}},
			}, kadm.ResourceConfigs{{
				Name: row.topic, Configs: []kadm.Config{{Key: "min.insync.replicas", Value: &row.isr}},
			}}, 3)
			said := ""
			for _, f := range d.findings {
				said += f.Detail + ". " + upperFirst(f.Advice)
			}
			if !strings.Contains(said, row.want) || (said == "") != (row.want == "") {
				t.Errorf("it says %q, want %q", said, row.want)
			}
		})
	}
}

// The doctor warns a team whose channel sends receipts but does not use them: a requested retry
// does not happen.
func TestDoctorOnReceiptsInVain(t *testing.T) {
	w := devInProcess(t, nil, "--set", "channels.asks.receipts=true")
	doctor := func() result { return cli(t, nil, "", "doctor", "--brokers", w.kafka, "--url", w.http) }
	w.send("k", `{"op":"register","delay":"1ms","channel":"silent"}`)
	w.send("a", `{"op":"register","delay":"1ms","channel":"asks"}`)
	doctor().want(t, exitOK, "the latest events have no receipts for channels without receipts")
	for _, channel := range []string{"silent", "asks"} {
		due := w.due(channel, 1)[0]
		value := fmt.Sprintf(`{"due_id":%q,"outcome":"retry","attempt":1,"retry_after":"1h"}`, headerOf(due, "ce_id"))
		r := &kgo.Record{
			Topic: "waterclock.receipts", Partition: topics.Partition(due.Key, 4), Key: due.Key,
			Value: []byte(value),
		}
		if err := w.client().ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("doctor to see the receipt", func() bool {
		r := doctor()
		return r.code == exitOK &&
			strings.Contains(r.out, "receipts arrived for channels without receipts: silent (1)") &&
			strings.Contains(r.out, "set channels.silent.receipts=true")
	})
}

// Brokers that accept connections but no longer answer cost the time of only one check.
func TestDoctorOnAFrozenBroker(t *testing.T) {
	c, brokers := kafka(t)
	applied(t, brokers)
	var answered atomic.Int32
	thaw := make(chan struct{})
	t.Cleanup(func() { close(thaw) }) // runs before the cluster is closed
	c.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if answered.Add(1) > 2 { // connecting still works
			<-thaw
		}
		return nil, nil, false
	})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // and an API that does not answer either
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	begun := time.Now()
	r := cli(t, nil, "", "doctor", "--brokers", brokers, "--url", "http://"+silent.Addr().String(), "--data-dir",
		filepath.Join(t.TempDir(), "data"))
	r.want(t, exitFailed, "fail  topics", "did not answer within 5s", "Check whether a broker hangs", "data dir",
		silent.Addr().String()+" has not answered within 5s")
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// A cluster without topics lacks topics, and not rights.
func TestDoctorWithoutTopics(t *testing.T) {
	_, brokers := kafka(t)
	r := doctorOf(t, brokers)
	r.want(t, exitOK, "warn  topics", "none of the topics waterclock.* exists", "waterclock topics apply",
		"skip  clock", "skip  transactions", "skip  receipts", "skip  channels")
	for _, blamed := range []string{"allow ", "ACL", "rights", "Kafka 3.0"} {
		if strings.Contains(r.out, blamed) {
			t.Errorf("%q is said:\n%s", blamed, r.out)
		}
	}
}

// A replication factor above the number of brokers is refused before anything is created.
func TestMoreReplicasThanBrokers(t *testing.T) {
	_, brokers := kafka(t)
	for _, verb := range []string{"plan", "apply"} {
		r := cli(t, nil, "", "--brokers", brokers, "topics", verb, "--set", "topics.replication=3")
		r.want(t, exitConflict, "3 replicas on a cluster of 1", "set topics.replication to 1 or less")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if all, err := kadm.NewClient(cl).ListTopics(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("%d topics were created, %v", len(all), err)
	}
	doctorOf(t, brokers, "--set", "topics.replication=3").want(t, exitFailed, "3 replicas on a cluster of 1")
}

// TestDoctorOnEngines: the doctor finds the members of the group, whichever protocol it has, and those that use other
// topics.
func TestDoctorOnEngines(t *testing.T) {
	for name, protocol := range map[string]kgo.Opt{
		"classic": kgo.Balancers(kgo.CooperativeStickyBalancer()), "consumer": kgo.ServerSideBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			_, brokers := kafka(t)
			applied(t, brokers)
			cli(t, nil, "", "--brokers", brokers, "topics", "apply", "--set", "topics.partitions=2", "--set",
				"topics.prefix=waterclok.").want(t, exitOK)
			join := func(topic string) {
				t.Helper()
				cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumerGroup("waterclock"),
					kgo.ConsumeTopics(topic), protocol)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cl.Close)
				for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
					if _, generation := cl.GroupMetadata(); generation > 0 {
						break
					}
					if time.Since(begun) > 30*time.Second {
						t.Fatal("nobody joined")
					}
				}
			}
			doctorOf(t, brokers).want(t, exitOK, "warn  engines", "no engine runs in group waterclock")
			join("waterclock.commands")
			doctorOf(t, brokers).want(t, exitOK, "ok    engines", "1 engine in group waterclock")
			join("waterclok.commands")
			doctorOf(t, brokers).want(t, exitFailed, "fail  engines", "topics waterclok.*", "Fix topics.prefix")
		})
	}
}

// TestDoctorOnQuotas: the doctor names a quota that applies to us, but not one for others. It
// also shows the notes that an instance adds after "ready".
func TestDoctorOnQuotas(t *testing.T) {
	_, brokers := kafka(t)
	applied(t, brokers)
	doctorOf(t, brokers).want(t, exitOK, "ok    quotas")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for id, rate := range map[string]float64{"waterclock": 1000, "somebody": 770077} {
		name := id
		_, err := kadm.NewClient(cl).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: "client-id", Name: &name}},
			Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: rate}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	anonymous := "ANONYMOUS" // who connects without a log-in
	_, err = kadm.NewClient(cl).AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{
		Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &anonymous}},
		Ops:    []kadm.AlterClientQuotaOp{{Key: "consumer_byte_rate", Value: 2000}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	doctorOf(t, brokers).want(t, exitOK, "consumer_byte_rate of user ANONYMOUS is 2000")
	r := doctorOf(t, brokers, "--url", apiSaying(t, 200, "ready\nKafka throttles this process"))
	r.want(t, exitOK, "warn  quotas", "producer_byte_rate of client-id waterclock is 1000",
		"says: Kafka throttles this process")
	if strings.Contains(r.out, "770077") {
		t.Errorf("somebody else's quota:\n%s", r.out)
	}
}

// Quotas that cannot be read are not known, and unknown is not ok.
func TestDoctorMayNotReadQuotas(t *testing.T) {
	c, brokers := kafka(t)
	applied(t, brokers)
	for code, advice := range map[int16]string{
		kerr.ClusterAuthorizationFailed.Code: "Allow DESCRIBE_CONFIGS on the cluster",
		kerr.UnsupportedVersion.Code:         "kafka-configs.sh --describe",
	} {
		c.ControlKey(int16(kmsg.DescribeClientQuotas), func(req kmsg.Request) (kmsg.Response, error, bool) {
			resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
			resp.ErrorCode = code
			return resp, nil, true
		})
		doctorOf(t, brokers).want(t, exitOK, "warn  quotas", "is unknown", advice)
	}
}

// A topic that exists only because somebody asks for its metadata at the same time is not a
// channel.
func TestChannelsInUseAreThere(t *testing.T) {
	_, brokers := kafka(t)
	applied(t, brokers)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for range 50 {
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = admin.ListEndOffsets(t.Context(), "waterclock.due.ghost")
		}()
		c := &config.Config{}
		c.Topics.Prefix = "waterclock."
		found, err := channelsInUse(t.Context(), c, admin)
		if err != nil || !slices.Equal(found, []string{"default"}) {
			t.Fatalf("channels %v, %v", found, err)
		}
		<-asked
	}
}
