// Package topics is the catalogue of what Waterclock keeps on Kafka: one file
// per topic, numbered by hop, with its name, key, partitioning, settings and
// codec. It and statestore alone turn the domain into bytes.
package topics
