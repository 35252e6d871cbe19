package gateway

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
)

// operation describes a route for /openapi.json.
type operation struct {
	id, summary  string
	query        []parameter
	headers      []string // names in headerDocs
	body         reflect.Type
	bodyType     string // media type; "" means application/json
	bodyOptional bool
	answers      answers
	answerType   string // media type; "" means application/json
	streams      bool   // may also answer text/event-stream
}

type parameter struct {
	name, doc   string
	kind        reflect.Type
	least, most int      // of a number
	oneOf       []string // all allowed values
	required    bool
}

// allows reports whether the parameter allows all values.
func (p *parameter) allows(values []string) bool {
	return len(p.oneOf) == 0 ||
		!slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(p.oneOf, v) })
}

// answers are the types of the answers by status; nil has no body.
type answers map[int]reflect.Type

const (
	idempotencyKey = "Idempotency-Key"
	ifMatch        = "If-Match"
	ifNoneMatch    = "If-None-Match"
	prefer         = "Prefer"
)

var headerDocs = map[string]string{
	idempotencyKey: "Makes repeats safe: without an id the trigger's id follows from it. The same key with other " +
		"content is idempotency_conflict",
	ifMatch: "The ETag the trigger must have, else 412",
	ifNoneMatch: "GET: answers 304 if the trigger has this ETag, and has neither fired nor follows clocks. Writes: " +
		"* registers only what does not exist, else 412",
	lastEventID: "The id of the last fact that was read: the stream continues after it, or reports that facts are " +
		"missing",
	prefer: "respond-async answers 202 as soon as the command is durable",
}

// describe builds the OpenAPI 3.1 document of the routes. open means that no credential is
// needed.
func describe(t *routeTable, open bool) ([]byte, error) {
	types := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	types.RegisterTypeAlias(reflect.TypeFor[topics.TextOrNumber](), reflect.TypeFor[textOrNumber]())
	api := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Waterclock", Version: "1",
			Description: "Registers triggers that fire at an instant, in a wall time or by a rule. " +
				"Every error is a problem (RFC 9457) with a code that never changes meaning.",
		},
		Paths: map[string]*huma.PathItem{},
		Components: &huma.Components{Schemas: types, SecuritySchemes: map[string]*huma.SecurityScheme{
			"bearer": {
				Type: "http", Scheme: "bearer",
				Description: "An API key, or a JWT of the configured issuer",
			},
			"apiKey": {Type: "apiKey", In: "header", Name: "X-API-Key"},
		}},
	}
	for _, r := range t.all() {
		item := api.Paths[r.pattern]
		if item == nil {
			item = &huma.PathItem{}
			api.Paths[r.pattern] = item
		}
		if err := setOperation(item, r.method, r.describe(types, open)); err != nil {
			return nil, err
		}
	}
	describeRegister(types)
	b, err := json.Marshal(api)
	if err != nil {
		return nil, err
	}
	return withFields(b)
}

// all lists the routes in the order of their paths.
func (t *routeTable) all() []*route {
	var list []*route
	for _, size := range t.bySize {
		list = append(list, size...)
	}
	slices.SortFunc(list, func(a, b *route) int {
		return cmp.Or(cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.method, b.method))
	})
	return list
}

func setOperation(item *huma.PathItem, method string, op *huma.Operation) error {
	slot := map[string]**huma.Operation{
		http.MethodGet: &item.Get, http.MethodPut: &item.Put,
		http.MethodPost:  &item.Post,
		http.MethodPatch: &item.Patch, http.MethodDelete: &item.Delete,
	}[method]
	if slot == nil {
		return fmt.Errorf("no field for method %s", method)
	}
	*slot = op
	return nil
}

var pathName = regexp.MustCompile(`\{([a-z]+)\}`)

func (r *route) describe(types huma.Registry, open bool) *huma.Operation {
	d := &r.doc
	op := &huma.Operation{OperationID: d.id, Summary: d.summary, Responses: map[string]*huma.Response{}}
	for _, m := range pathName.FindAllStringSubmatch(r.pattern, -1) {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: m[1], In: "path", Required: true,
			Schema:      &huma.Schema{Type: huma.TypeString, MinLength: ptr(1)},
			Description: "Percent-encoded",
		})
	}
	for _, q := range d.query {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: q.name, In: "query", Description: q.doc, Required: q.required,
			Schema: q.schema(types),
		})
	}
	for _, name := range d.headers {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: name, In: "header", Description: headerDocs[name],
			Schema: &huma.Schema{Type: huma.TypeString},
		})
	}
	if d.body != nil {
		op.RequestBody = &huma.RequestBody{Required: !d.bodyOptional, Content: content(types, d.body, d.bodyType, d.id)}
	}
	for status, kind := range d.answers {
		answer := &huma.Response{Description: http.StatusText(status)}
		if kind != nil {
			answer.Content = content(types, kind, d.answerType, d.id)
		}
		if d.streams && status == http.StatusOK {
			answer.Content["text/event-stream"] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
		}
		op.Responses[strconv.Itoa(status)] = answer
	}
	op.Responses["default"] = &huma.Response{
		Description: "A problem",
		Content:     content(types, reflect.TypeFor[problem.Problem](), "application/problem+json", ""),
	}
	if r.right != 0 {
		op.Description = "Needs the role " + r.right.Least() + "."
		op.Security = []map[string][]string{{"bearer": {}}, {"apiKey": {}}}
		if open {
			op.Security = []map[string][]string{{}}
		}
	}
	return op
}

func (q *parameter) schema(types huma.Registry) *huma.Schema {
	s := types.Schema(q.kind, true, q.name)
	if q.most > 0 {
		s.Minimum, s.Maximum = ptr(float64(q.least)), ptr(float64(q.most))
	}
	for _, v := range q.oneOf {
		s.Enum = append(s.Enum, v)
	}
	return s
}

func content(types huma.Registry, kind reflect.Type, media, hint string) map[string]*huma.MediaType {
	if media == "" {
		media = "application/json"
	}
	schema := named(types, kind, hint)
	if media == "application/schema+json" || media == "application/json" && kind.Kind() == reflect.String {
		schema = &huma.Schema{Type: huma.TypeObject}
	}
	return map[string]*huma.MediaType{media: {Schema: schema}}
}

// named is the schema of a type by reference. huma would inline types that provide their
// own schema, and repeat a register in five places.
func named(types huma.Registry, kind reflect.Type, hint string) *huma.Schema {
	own, ok := reflect.New(kind).Interface().(huma.SchemaProvider)
	if !ok || kind.Kind() != reflect.Struct {
		return types.Schema(kind, true, hint)
	}
	if types.Map()[kind.Name()] == nil {
		types.Map()[kind.Name()] = own.Schema(types)
	}
	return &huma.Schema{Ref: "#/components/schemas/" + kind.Name()}
}

// No list of ours is ever null; huma would allow null for each.
func init() { huma.DefaultArrayNullable = false }

func ptr[T any](v T) *T { return &v }

func (s *documents) getOpenAPI(w http.ResponseWriter, _ *request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.openapi)
	return nil
}
