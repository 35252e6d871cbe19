// Package templates renders the text of notifications from files of the operator.
//
// # Files
//
// A directory has one file for each template and language:
//
//	reminder.tmpl        the default; every template must have it
//	reminder.de.tmpl     German
//	reminder.de-AT.tmpl  Austrian German
//
// A file is a Go text/template that defines blocks: title, body, html and deep_link, at least one
// of title and body. Other blocks are helpers of the same file. Block html is a html/template:
// inserted values are escaped. A locale falls back by its subtags (RFC 4647, 3.4): de-AT, de,
// then the file without a locale.
//
// # Bounds
//
// Data come from whoever schedules, so a rendering is bounded for any data: executed nodes, bytes
// of each block, and bytes that functions make. All three are counted, never timed. So the same
// template and data give the same answer on a loaded machine. A missing value is an error.
//
// # Promises
//
//   - A title or a deep link is one line without control characters.
//   - A Set never changes: a reload makes another one.
package templates
