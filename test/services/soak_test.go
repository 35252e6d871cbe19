//go:build soak

package services

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func TestThreeNodesSurviveTheLossOfOne(t *testing.T) {
	k := Kafka(t, Nodes(3))
	topic := roundTrip(t, k.Bootstrap, 3)
	for n := 1; n <= 3; n++ {
		k.Kill9(n)
		if got := committed(t, k.Bootstrap, topic, 2); len(got) != 2 {
			t.Fatalf("without node %d %d records are left of 2", n, len(got))
		}
		roundTrip(t, k.Bootstrap, 2)
		k.Restart(n)
	}
}

func TestSecureListenerEnforcesACLs(t *testing.T) {
	k := Kafka(t, Secure())
	admin := kadm.NewClient(client(t, k.Bootstrap))
	all := kadm.NewACLs().Allow("User:engine").AllowHosts("*").
		Topics("services-").TransactionalIDs("services-").ResourcePatternType(kadm.ACLPatternPrefixed).
		Operations(kadm.OpRead, kadm.OpWrite, kadm.OpCreate, kadm.OpDescribe)
	if err := all.ValidateCreate(); err != nil {
		t.Fatal(err)
	}
	results, err := admin.CreateACLs(testContext(t), all)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}

	topic := roundTrip(t, k.SASLSSL, 1, as(t, k, "engine")...)
	intruder := client(t, k.SASLSSL, as(t, k, "intruder")...)
	if err := intruder.ProduceSync(testContext(t), &kgo.Record{Topic: topic}).FirstErr(); !denied(err) {
		t.Fatalf("the intruder's record: %v, want a refusal", err)
	}
}

func TestNamespacesCutNodesOff(t *testing.T) {
	k := Kafka(t, Nodes(3), Namespaces())
	topic := roundTrip(t, k.Bootstrap, 3)
	k.Isolate(2)
	eventually(t, "node 2 is unreachable", func() bool { return listed(addrOf(k, 2), 2) != nil })
	if got := committed(t, k.Bootstrap, topic, 2); len(got) != 2 {
		t.Fatalf("without node 2 %d records are left of 2", len(got))
	}
	k.Rejoin(2)
	eventually(t, "node 2 is back", func() bool { return listed(addrOf(k, 2), 2) == nil })
	k.Cut(1, 3)
	k.Mend(1, 3)
	eventually(t, "nodes 1 and 3 are in one cluster", func() bool {
		return listed(addrOf(k, 1), 1) == nil && listed(addrOf(k, 3), 3) == nil
	})
}

// as is how a user of Secure logs in.
func as(t *testing.T, k *KafkaCluster, user string) []kgo.Opt {
	t.Helper()
	pem, err := os.ReadFile(k.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("no certificate in %s", k.CA)
	}
	login := scram.Auth{User: user, Pass: user + "-secret"}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(login.AsSha512Mechanism())}
}

func addrOf(k *KafkaCluster, n int) string { return strings.Split(k.Bootstrap, ",")[n-1] }
