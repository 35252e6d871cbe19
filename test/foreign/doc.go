// Package foreign drives Kafka clients that are not ours, as users of other
// languages would: kcat, Python's confluent-kafka, Node's kafkajs and the Java
// client, each with the partitioner it has by default.
//
//	kcat, python   CRC-32 of the key (librdkafka's consistent_random)
//	node, java     murmur2 of the key, as Waterclock's topics are partitioned
//
// Clients returns all four. What is missing fails the test: test/setup.sh
// installs it. With -short the test is skipped, for -short promises that no JVM is needed.
package foreign
