package gateway

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/trigger"
)

// optional are fields of parts that stay nil without an option.
var optional = map[string]bool{
	"deadLetters.rows": true, "notifications.rows": true, "searches.notified": true, "endpoints.probe": true,
	"twilioStatus.callbacks": true, "ackLinks.secrets": true, "optOutLinks.secrets": true, "optOutLinks.store": true,
	"preferenceCalls.store": true,
	"preferenceCalls.slots": true, "probes.metrics": true, "documents.schemas": true, "documents.asyncAPI": true,
	"channelAdmin.configured": true, "waitingCounts.group": true, "settings.all": true,
	"mover.store": true, "eraser.store": true, "eraser.userTriggers": true,
}

// nobody knows no caller.
type nobody struct{ auth.Authenticator }

// Every part has what it needs: wire forgets nothing.
func TestWire(t *testing.T) {
	s, err := New(Options{
		Kafka: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:1")}, Partitions: testPartitions, Auth: nobody{},
		PeerSecret: make([]byte, 16),
		Timetable:  func() *trigger.Timetable { return &trigger.Timetable{Zones: calendar.Embedded()} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seen := map[uintptr]bool{}
	var walk func(part reflect.Value)
	walk = func(part reflect.Value) {
		if part.IsNil() || seen[part.Pointer()] {
			return
		}
		seen[part.Pointer()] = true
		for i := range part.Elem().NumField() {
			f, v := part.Elem().Type().Field(i), part.Elem().Field(i)
			name := part.Elem().Type().Name() + "." + f.Name
			switch v.Kind() {
			case reflect.Pointer, reflect.Func, reflect.Interface, reflect.Map, reflect.Slice:
				if v.IsNil() && !optional[name] {
					t.Errorf("%s is nil", name)
				}
			case reflect.Int, reflect.Int32, reflect.Int64:
				if v.IsZero() {
					t.Errorf("%s is 0", name)
				}
			}
			if v.Kind() == reflect.Pointer && isPart[v.Type().Elem().Name()] {
				walk(v)
			}
		}
	}
	all := reflect.ValueOf(&s.parts).Elem()
	for i := range all.NumField() {
		if all.Field(i).IsNil() {
			t.Errorf("there is no part %s", all.Type().Field(i).Name)
		}
		walk(all.Field(i))
	}
}

// isPart has the parts that other parts use.
var isPart = map[string]bool{
	"bodies": true, "lookup": true, "writeRate": true, "encoder": true, "commandWriter": true, "preferenceCalls": true,
	"historyWait": true, "deadLetters": true, "triggerViews": true, "triggerWrites": true, "calendars": true,
	"mover": true, "eraser": true, "batches": true, "acts": true, "channelAdmin": true,
}

// Server does what every request needs, and no part has it.
func TestServerIsSmall(t *testing.T) {
	const most = 25
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := 0
	isServer := func(e ast.Expr) bool {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		id, ok := e.(*ast.Ident)
		return ok && id.Name == "Server"
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && isServer(n.Recv.List[0].Type) {
					methods++
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if isServer(field.Type) {
						t.Errorf("%s: a part has the whole server: give it what it needs", files.Position(field.Pos()))
					}
				}
			}
			return true
		})
	}
	if methods > most {
		t.Errorf("Server has %d methods, the most is %d: answer routes in parts (wire.go)", methods, most)
	}
}
