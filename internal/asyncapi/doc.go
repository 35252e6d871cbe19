// Package asyncapi describes the topics to programs: an AsyncAPI 3 document
// made of the catalogue (names, partitions, settings: topics.Catalogue), of the
// JSON Schemas in package schemas, and of examples that the code itself wrote.
// It is served at /asyncapi.json with the names of the cluster, and kept in
// schemas/asyncapi.json with the default ones by go generate.
//
// # Promises
//
//   - Every topic of the catalogue is a channel, with every setting.
//   - Examples were decoded or written by package topics, and keep the schemas.
//   - The document stands alone: no reference leaves it.
//   - The same options give the same bytes.
package asyncapi

//go:generate go run ./gen ../../schemas/asyncapi.json
