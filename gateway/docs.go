package gateway

import (
	"bytes"
	_ "embed"
	"html/template"
	"io/fs"
	"net/http"
	"path"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// docsHTML shows the routes to people; it loads nothing from anywhere.
//
//go:embed docs.html
var docsHTML string

var docsPage = template.Must(template.New("docs").Parse(docsHTML))

// docsRow is a route on the page.
type docsRow struct {
	Method, Path, Summary, Role string
	Parameters                  []docsParameter
	Fields                      []docsParameter
}

type docsParameter struct{ Name, Doc string }

// documents serves the descriptions of the API and of the topics.
type documents struct {
	asyncAPI []byte
	openapi  []byte
	routes   *routeTable
	schemas  fs.FS
}

func (s *documents) getDocs(w http.ResponseWriter, _ *request) error {
	var rows []docsRow
	for _, r := range s.routes.all() {
		rows = append(rows, r.docsRow())
	}
	var page bytes.Buffer
	if err := docsPage.Execute(&page, rows); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'")
	_, _ = w.Write(page.Bytes())
	return nil
}

func (r *route) docsRow() docsRow {
	row := docsRow{Method: r.method, Path: r.pattern, Summary: r.doc.summary}
	if r.right != 0 {
		row.Role = r.right.Least()
	}
	for _, q := range r.doc.query {
		row.Parameters = append(row.Parameters, docsParameter{"?" + q.name, q.doc})
	}
	for _, name := range r.doc.headers {
		row.Parameters = append(row.Parameters, docsParameter{name, headerDocs[name]})
	}
	if r.doc.body == of[Register]() || r.doc.body == of[RegisterOrShort]() {
		for _, name := range registerFields("id") {
			row.Fields = append(row.Fields, docsParameter{name, fieldDoc(name)})
		}
	}
	return row
}

// getSchema serves a schema by its file name, with or without the suffix.
func (s *documents) getSchema(w http.ResponseWriter, r *request) error {
	missing := problem.New(http.StatusNotFound, trigger.CodeNotFound, "name",
		"no such schema; see /asyncapi.json")
	name := r.names["name"]
	if s.schemas == nil || !fs.ValidPath(name) || path.Base(name) != name {
		return missing
	}
	b, err := fs.ReadFile(s.schemas, name)
	if err != nil {
		b, err = fs.ReadFile(s.schemas, name+".schema.json")
	}
	if err != nil {
		return missing
	}
	w.Header().Set("Content-Type", "application/schema+json")
	_, _ = w.Write(b)
	return nil
}

// getAsyncAPI serves the description of the topics.
func (s *documents) getAsyncAPI(w http.ResponseWriter, _ *request) error {
	if s.asyncAPI == nil {
		return problem.New(http.StatusNotFound, trigger.CodeNotFound, "", "this instance does not serve the "+
			"description of the topics")
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.asyncAPI)
	return nil
}
