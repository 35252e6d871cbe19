package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawRecord encodes one record; a nil key or value is null.
func rawRecord(delta int32, key, value []byte) []byte {
	r := kmsg.Record{OffsetDelta: delta, Key: key, Value: value}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	return r.AppendTo(nil)
}

// rawBatch is a batch of the records, by no producer.
func rawBatch(records ...[]byte) batch {
	rb := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1,
		LastOffsetDelta:      int32(len(records) - 1),
		FirstTimestamp:       1000,
		MaxTimestamp:         2000,
		ProducerID:           -1,
		ProducerEpoch:        -1,
		FirstSequence:        -1,
		NumRecords:           int32(len(records)),
	}
	for _, r := range records {
		rb.Records = append(rb.Records, r...)
	}
	return seal(rb)
}

// sequenced is a batch of one record by an idempotent producer.
func sequenced(pid int64, epoch int16, seq int32, value string) batch {
	r := rawRecord(0, []byte("k"), []byte(value))
	return seal(kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
		ProducerID: pid, ProducerEpoch: epoch, FirstSequence: seq, NumRecords: 1, Records: r,
	})
}

func inTxn(b batch) batch {
	b.setAttrs(b.attrs() | attrTxn)
	b.reseal()
	return b
}

// produceRaw sends one batch as it is, and returns the partition's answer.
func produceRaw(t testing.TB, b *Broker, topic string, partition int32, raw batch) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return produceIn(t, b, "", topic, partition, raw)
}

// produceIn is produceRaw with a transactional id.
func produceIn(
	t testing.TB, b *Broker, txnID, topic string, partition int32, raw batch,
) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	cl := client(t, b)
	defer cl.Close()
	meta, err := kadm.NewClient(cl).Metadata(testContext(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = 1000
	if txnID != "" {
		req.TransactionID = &txnID
	}
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, meta.Topics[topic].ID
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition = partition
	rp.Records = append([]byte(nil), raw...)
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := cl.Broker(0).Request(testContext(t), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// hangUp says whether the broker closes a connection that sends raw.
func hangUp(t testing.TB, addr string, raw []byte) bool {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	c.Write(raw)
	_, err = c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// exchange sends frames at once and returns the first answer without its length.
func exchange(t testing.TB, addr string, frames ...[]byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(bytes.Join(frames, nil)); err != nil {
		t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	return body
}
