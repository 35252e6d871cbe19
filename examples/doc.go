// Package examples holds what the documents show, so that it stays true. It
// has no code of its own: the tests run the scripts beside them against
// `waterclock dev`, the fenced blocks of docs/SEMANTICS.md against the code
// that decides, and hold names in the documents (metrics, tests, files)
// against the tree.
//
//	scripts/*.sh      one task each, runnable by hand; what a line must print stands behind "#="
//	worker/           a channel of your own: due events in, receipts out
//	windows/          a consumer that knows when a minute is complete
//	blocks_test.go    finds fenced blocks in a document, and rewrites them with -update
//	preview_test.go   ```preview: questions to POST /v1/preview, and their answers
//	life_test.go      ```life: commands with their times, and what the engine tells
//	names_test.go     links, metrics and tests that documents name
//	scripts_test.go   the scripts
package examples
