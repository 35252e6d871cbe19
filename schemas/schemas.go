// Package schemas holds the bytes others depend on: the protobuf schema of
// topic state with its generated code (statepb), and the JSON Schemas of the
// topics people write and read by hand. They are served under /schemas/ and
// used by the tests that keep the codecs honest.
package schemas

import "embed"

//go:generate protoc --proto_path=. --go_out=.. --go_opt=module=github.com/waterclock/waterclock waterclock/v1/state.proto

// FS has every schema by its file name: command.schema.json,
// receipt.schema.json, event.schema.json and waterclock/v1/state.proto.
//
//go:embed *.schema.json waterclock/v1/state.proto
var FS embed.FS
