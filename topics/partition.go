package topics

// Partition is the partition to which Kafka's Java client sends a record with this key:
// toPositive(murmur2(key)) % partitions (Utils.murmur2, BuiltInPartitioner). librdkafka does
// the same only with partitioner=murmur2_random. The engine forwards records on other
// partitions. partitions must be positive.
func Partition(key []byte, partitions int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % partitions
}

// murmur2 is the 32-bit hash with Kafka's seed. Java's arithmetic is that of
// uint32 here: its shifts are unsigned (>>>) and its sums wrap.
func murmur2(key []byte) uint32 {
	const seed, m, r = 0x9747b28c, 0x5bd1e995, 24
	h := seed ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> r
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
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
