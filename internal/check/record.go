package check

// Kind is the kind of a record in a dump.
type Kind uint8

const (
	Data         Kind = iota // written outside of transactions: visible to all
	InTxn                    // written in a transaction: visible if its marker commits it
	CommitMarker             // ends the producer's transaction: its records are visible
	AbortMarker              // ends the producer's transaction: its records are not visible
)

// Header is a record header. A null value counts as an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a topic partition, or a transaction marker.
type Record struct {
	Offset     int64
	Timestamp  int64 // append time, milliseconds since 1970 UTC
	Kind       Kind
	ProducerID int64 // -1: none
	Epoch      int16
	Key        []byte // nil: null
	Value      []byte // nil: null
	Headers    []Header
}

// header returns the value of the first header of that name.
func (r *Record) header(name string) (string, bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			return string(r.Headers[i].Value), true
		}
	}
	return "", false
}

// PartitionOf exports partitionOf for tests and tools.
func PartitionOf(key []byte, partitions int32) int32 { return partitionOf(key, partitions) }

// partitionOf returns the partition of a key as Kafka's Java client computes it: murmur2, made
// positive, modulo the number of partitions.
func partitionOf(key []byte, partitions int32) int32 {
	const m = 0x5bd1e995
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> 24
		h = h*m ^ k*m
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(key[0])) * m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return int32(h&0x7fffffff) % partitions
}
