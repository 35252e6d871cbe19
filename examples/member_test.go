package examples

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/waterclock/waterclock/test/services"
)

// users makes them, each with the password <name>-secret.
func users(t *testing.T, bootstrap string, names ...string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, name := range names {
		up := kadm.UpsertSCRAM{User: name, Mechanism: kadm.ScramSha512, Iterations: 4096, Password: name + "-secret"}
		done, err := kadm.NewClient(cl).AlterUserSCRAMs(t.Context(), nil, []kadm.UpsertSCRAM{up})
		if err == nil {
			err = done.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// member is a user behind the broker's TLS and SCRAM.
type member struct {
	t    *testing.T
	name string
	opts []kgo.Opt
	cl   *kgo.Client
}

func login(t *testing.T, k *services.KafkaCluster, name string) *member {
	pem, err := os.ReadFile(k.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	m := &member{t: t, name: name, opts: []kgo.Opt{
		kgo.SeedBrokers(k.SASLSSL), kgo.DialTLSConfig(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}),
		kgo.SASL(scram.Auth{User: name, Pass: name + "-secret"}.AsSha512Mechanism()),
	}}
	m.cl = m.client()
	return m
}

func (m *member) client(more ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(m.opts[:len(m.opts):len(m.opts)], more...)...)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(cl.Close)
	return cl
}

func (m *member) try(topic, key, value string) error {
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	return m.cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr()
}

func (m *member) write(topic, key, value string) {
	if err := m.try(topic, key, value); err != nil {
		m.t.Fatalf("%s writes %s: %v", m.name, topic, err)
	}
}

// first is the first record of a topic, read in a consumer group.
func (m *member) first(topic string) *kgo.Record {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	cl := m.client(kgo.ConsumerGroup(m.name+"-1"), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for {
		fetches := cl.PollFetches(ctx)
		if recs := fetches.Records(); len(recs) > 0 {
			return recs[0]
		}
		if err := fetches.Err(); err != nil {
			m.t.Fatalf("%s reads %s: %v", m.name, topic, err)
		}
	}
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
