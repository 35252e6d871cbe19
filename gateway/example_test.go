package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A gateway without an engine beside it: a write becomes a command in Kafka. The
// answer says that it is durable, and not yet decided.
func ExampleNew() {
	names := topics.Names{}
	kafka, err := kfake.NewCluster(kfake.SeedTopics(4, names.Commands(), names.State(), names.Events()),
		kfake.SeedTopics(1, names.Control()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer kafka.Close()
	s, err := gateway.New(gateway.Options{
		Kafka: []kgo.Opt{kgo.SeedBrokers(kafka.ListenAddrs()...)}, Names: names, Partitions: 4,
		PeerSecret: []byte("shared by all instances"),
		Timetable:  func() *trigger.Timetable { return &trigger.Timetable{Zones: calendar.Embedded()} },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	for _, body := range []string{`{"delay":"7m"}`, `{"dealy":"7m"}`} {
		r := httptest.NewRequest(http.MethodPut, "http://localhost/v1/triggers/tea", strings.NewReader(body))
		r.Header.Set("Prefer", "respond-async")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		fmt.Println(w.Code, strings.Contains(w.Body.String(), `"code":"unknown_field"`))
	}
	// Output:
	// 202 false
	// 422 true
}
