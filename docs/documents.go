// Package docs has the documents that the program carries with it. All of them are for readers;
// README.md beside this directory says where to begin.
package docs

import _ "embed"

// Runbook is operations/runbook.md: what to do about each alert.
//
//go:embed operations/runbook.md
var Runbook []byte
