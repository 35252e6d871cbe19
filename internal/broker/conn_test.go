package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceFrame is a request of one batch to a/0, acks=1.
func produceFrame(raw batch) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks = 9, 1
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = raw
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "a", Partitions: []kmsg.ProduceRequestTopicPartition{rp}}}
	return kmsg.NewRequestFormatter().AppendRequest(nil, req, 1)
}

// TestHangUpBeforeProduce: a client hangs up while its request waits for kfake. What was wrong with the request
// is refused all the same, and what was right is written and followed.
func TestHangUpBeforeProduce(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1, "cleanup.policy", "compact", "message.timestamp.type", "LogAppendTime")
	busy, free := make(chan struct{}), make(chan struct{})
	once := sync.OnceFunc(func() { close(busy) })
	b.ask(func(c *kfake.Cluster) {
		c.ControlKey(int16(kmsg.ListGroups), func(kmsg.Request) (kmsg.Response, error, bool) {
			once()
			<-free
			return nil, nil, false
		})
	})
	go func() { _, _ = kmsg.NewPtrListGroupsRequest().RequestWith(t.Context(), client(t, b)) }()
	<-busy
	open := b.conns.number()
	for _, raw := range []batch{
		rawBatch(rawRecord(0, nil, []byte("null key"))),
		rawBatch(rawRecord(0, []byte("k"), []byte("good"))),
	} {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(produceFrame(raw)); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	for end := time.Now().Add(10 * time.Second); b.tickets.count() < 2 || b.conns.number() > open; {
		if time.Now().After(end) {
			break // without tickets nothing waits for its turn
		}
		time.Sleep(time.Millisecond)
	}
	close(free)
	got := read(t, b, "a", 0)
	wantValues(t, got, "good")
	if len(got) == 1 && got[0].Attrs.TimestampType() != 1 {
		t.Error("it has no append time")
	}
	if n := b.tickets.count(); n != 0 {
		t.Errorf("%d requests are still followed", n)
	}
}

func (ts *tickets) count() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.open)
}

func (s *conns) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.set)
}

// TestUncheckedProduce: what we know nothing of is not written.
func TestUncheckedProduce(t *testing.T) {
	b := start(t, "")
	create(t, b, "a", 1)
	b.tickets.mu.Lock()
	b.tickets.open = nil
	b.tickets.mu.Unlock()
	req := kmsg.NewPtrProduceRequest()
	req.Topics = []kmsg.ProduceRequestTopic{{
		Topic: "a", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: rawBatch(rawRecord(0, nil, nil))}},
	}}
	resp, ok := b.onProduce(req).(*kmsg.ProduceResponse)
	if !ok || resp.Topics[0].Partitions[0].ErrorCode != kerr.NetworkException.Code {
		t.Errorf("kfake gets the request; answer %v", resp)
	}
}

// TestFetchIsBounded: a client that asks for everything at once gets it piece by piece.
func TestFetchIsBounded(t *testing.T) {
	for _, version := range []int16{11, 16} {
		b := start(t, t.TempDir(), func(o *Options) { o.fetchBytes = 100_000 })
		create(t, b, "a", 1)
		cl := client(t, b)
		for range 10 {
			produce(t, cl, &kgo.Record{Topic: "a", Value: bytes.Repeat([]byte("0123456789"), 3_000)})
		}
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.ReplicaID = math.MaxInt32, -1
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.PartitionMaxBytes = math.MaxInt32
		req.Topics = []kmsg.FetchRequestTopic{{
			Topic: "a", TopicID: b.topics.named("a").id, Partitions: []kmsg.FetchRequestTopicPartition{rp},
		}}
		most := kgo.MaxVersions(maxVersion(int16(kmsg.Fetch), version))
		resp, err := req.RequestWith(testContext(t), client(t, b, most))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(resp.Topics[0].Partitions[0].RecordBatches); n > 100_000 || n < 60_000 {
			t.Errorf("version %d: got %d bytes", version, n)
		}
	}
}

// TestShareFetchIsBounded: as TestFetchIsBounded. kfake looks at the number of records alone.
func TestShareFetchIsBounded(t *testing.T) {
	for _, version := range []int16{1, 2} {
		for most, want := range map[int32]int64{math.MaxInt32: 2, 0: 2, 1: 1} {
			b := start(t, t.TempDir(), func(o *Options) { o.fetchBytes = 2 << 20 })
			create(t, b, "a", 1)
			group, member := "g", "m"
			cl := client(t, b, kgo.MaxVersions(maxVersion(int16(kmsg.ShareFetch), version)))
			join := kmsg.NewPtrShareGroupHeartbeatRequest()
			join.GroupID, join.MemberID, join.SubscribedTopicNames = group, member, []string{"a"}
			if resp, err := join.RequestWith(testContext(t), cl); err != nil || resp.ErrorCode != 0 {
				t.Fatal(err, resp)
			}
			var acks []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch
			fetch := func(epoch int32) *kmsg.ShareFetchResponse {
				req := kmsg.NewPtrShareFetchRequest()
				req.GroupID, req.MemberID, req.ShareSessionEpoch, req.MaxRecords = &group, &member, epoch, most
				req.Topics = []kmsg.ShareFetchRequestTopic{{
					TopicID:    b.topics.named("a").id,
					Partitions: []kmsg.ShareFetchRequestTopicPartition{{AcknowledgementBatches: acks}},
				}}
				if req.IsRenewAck = acks != nil; req.IsRenewAck {
					req.MaxRecords, req.MaxBytes = 0, 0
				}
				resp, err := cl.Broker(0).Request(testContext(t), req)
				if err != nil || resp.(*kmsg.ShareFetchResponse).ErrorCode != 0 {
					t.Fatal(err, resp)
				}
				return resp.(*kmsg.ShareFetchResponse)
			}
			fetch(0) // from here on
			for range 5 {
				produce(t, client(t, b), rec("a", 0, "k", "v"))
			}
			var got int64
			for _, a := range fetch(1).Topics[0].Partitions[0].AcquiredRecords {
				got += a.LastOffset - a.FirstOffset + 1
			}
			if got != want {
				t.Errorf("version %d: got %d records for %d, want %d", version, got, most, want)
			}
			if version >= 2 { // renewing locks, it has to ask for none
				acks = []kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{{AcknowledgeTypes: []int8{4}}}
				fetch(2)
			}
		}
	}
}

// TestConnectionsOfOthers: the limit of connections does not shut out the engine, which is in the same process.
func TestConnectionsOfOthers(t *testing.T) {
	b := start(t, "", func(o *Options) { o.MaxConns = 2 })
	for range 2 {
		c, err := net.Dial("tcp", b.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for b.conns.number() < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := client(t, b, kgo.Dialer(b.Dial)).Ping(testContext(t)); err != nil {
		t.Error(err)
	}
	if !hangUp(t, b.Addr(), nil) {
		t.Error("a third connection over the network is served")
	}
}

// TestIdleConnections: a connection over the network on which nothing comes is closed, but not while a request
// on it waits for its answer.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nw kfake.VirtualNetwork
		b, err := Start(t.Context(), Options{Listen: "127.0.0.1:9092", ListenFn: nw.Listen, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		dial := func() net.Conn {
			c, err := nw.DialContext(t.Context(), "tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		var head [8]byte
		begun := time.Now()
		idle := dial()
		defer idle.Close()
		if _, err := idle.Read(head[:]); err == nil || time.Since(begun) != 10*time.Minute {
			t.Errorf("an idle connection was closed after %v: %v", time.Since(begun), err)
		}

		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MinBytes, req.MaxBytes, req.ReplicaID = 11, 1, 1000, -1
		req.MaxWaitMillis = int32((25 * time.Minute).Milliseconds())
		busy := dial()
		defer busy.Close()
		if _, err := busy.Write(kmsg.NewRequestFormatter().AppendRequest(nil, req, 7)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(busy, head[:]); err != nil || binary.BigEndian.Uint32(head[4:]) != 7 {
			t.Errorf("a fetch that waits longer got %x, %v", head, err)
		}

		inside, err := b.Dial(t.Context(), "tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		defer inside.Close()
		if err := inside.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if _, err := inside.Read(head[:]); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("an idle connection within the process: %v", err)
		}
	})
}
