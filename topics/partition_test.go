package topics

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Vectors of Kafka's own test (UtilsTest.testMurmur2), signed as Java prints
// them.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

// kgo's default partitioner is the Java client's; it is what our own clients
// produce with.
func TestPartitionIsTheClients(t *testing.T) {
	byClient := kgo.StickyKeyPartitioner(nil).ForTopic("t")
	for n := range 2000 {
		key := bytes.Repeat([]byte{byte(n), byte(n >> 3), 0xff}, n%9)
		key = append(key, byte(n>>8), byte(n))
		for _, partitions := range []int32{1, 4, 16, 33} {
			if got, want := Partition(key, partitions), int32(byClient.Partition(&kgo.Record{Key: key},
				int(partitions))); got != want {
				t.Fatalf("%x of %d: got %d, want %d", key, partitions, got, want)
			}
		}
	}
}

// Growing P by a factor splits partitions and never mixes them
// (docs/operations/kafka.md).
func TestPartitionSplits(t *testing.T) {
	for n := range 1000 {
		key := []byte{byte(n), byte(n >> 8), 7}
		if Partition(key, 48)%16 != Partition(key, 16) {
			t.Fatalf("%x: %d of 48, %d of 16", key, Partition(key, 48), Partition(key, 16))
		}
	}
}
