package check

// Kind says what a record of a dump is.
type Kind uint8

const (
	Data         Kind = iota // written outside of transactions: seen by everybody
	InTxn                    // written in a transaction: its marker decides
	CommitMarker             // the producer's transaction ends here, its records are seen
	AbortMarker              // the same, and they are not
)

// Header is a record header. A null value is an empty one.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a topic partition, markers of transactions included.
type Record struct {
	Offset     int64
	Timestamp  int64 // of the append, milliseconds since 1970 UTC
	Kind       Kind
	ProducerID int64 // -1: none
	Epoch      int16
	Key        []byte // nil: null
	Value      []byte // nil: null
	Headers    []Header
}

// header is the value of the first header of that name.
func (r *Record) header(name string) (string, bool) {
	for i := range r.Headers {
		if r.Headers[i].Key == name {
			return string(r.Headers[i].Value), true
		}
	}
	return "", false
}

// PartitionOf is partitionOf for tests and tools outside.
func PartitionOf(key []byte, partitions int32) int32 { return partitionOf(key, partitions) }

// partitionOf is the partition of a key as Kafka's Java client computes it:
// murmur2, made positive, modulo the number of partitions.
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
