// Package topics is the catalogue of what Waterclock keeps on Kafka: one file
// per topic, numbered by hop, with its name, key, partitioning, settings and
// codec. It and statestore alone turn the domain into bytes.
//
// # Source of truth
//
// docs/formats defines the topics that users write and read (commands, due, receipts, events,
// rejected, dead-letter). schemas/waterclock/v1 defines topic state. testdata has bytes of
// every format and release, which must decode for ever.
//
// # Promises
//
//   - A decoder takes any bytes: it returns a *trigger.Error that names the
//     field, or a value that keeps every bound of Limits; it never panics and
//     its work is linear in the record's size.
//   - The two spellings of a command mean the same and hash alike.
//   - Bytes of a newer version are refused by name, never guessed at.
//   - Decoded commands alias the record (Payload, header values): do not
//     write to a record after decoding it. Decoded states are copies.
package topics
