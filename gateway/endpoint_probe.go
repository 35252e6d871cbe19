package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/trigger"
)

// EndpointTest is a callback URL to check.
type EndpointTest struct {
	URL    string `json:"url"              doc:"As callback.url has it"`
	Send   bool   `json:"send,omitempty"   doc:"Make a request. Without it, nothing is sent over the connection but TLS"`
	Tenant string `json:"tenant,omitempty" doc:"Whose callback it is; default: the caller's tenant"`
}

// These bound how long one test takes and how many run at once, because each holds a
// connection to a foreign server.
const (
	testWithin  = 20 * time.Second
	testsAtOnce = 4
)

// testEndpoint calls with the transport of webhook workers. The answer holds for this
// process, not for the network of others.
func (s *endpoints) testEndpoint(w http.ResponseWriter, r *request) error {
	if s.probe == nil {
		return problem.New(
			http.StatusUnprocessableEntity,
			trigger.CodeUnsupported,
			"",
			"this server does not call endpoints",
		)
	}
	asked, err := s.endpointTest(w, r)
	if err != nil {
		return err
	}
	if !s.tests.Take(r.who.Tenant) {
		return problem.TooMany(trigger.CodeOverloaded, "other endpoints are being tested: try again", time.Second)
	}
	defer s.tests.Release(r.who.Tenant)
	ctx, cancel := context.WithTimeout(r.Context(), testWithin)
	defer cancel()
	return sendJSON(w, http.StatusOK, s.probe(ctx, asked.Tenant, asked.URL, asked.Send))
}

func (s *endpoints) endpointTest(w http.ResponseWriter, r *request) (asked EndpointTest, err error) {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return asked, err
	}
	if asked.URL, err = fs.takeText("url"); err != nil {
		return asked, err
	}
	if asked.Tenant, err = fs.takeText("tenant"); err != nil {
		return asked, err
	}
	switch send := string(fs.take("send")); send {
	case "", "null", "false":
	case "true":
		asked.Send = true
	default:
		return asked, problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "send", "send is true or false")
	}
	if len(fs) > 0 {
		return asked, problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, fs[0].name,
			printable.Quoted(fs[0].name)+" is not a field here: url, send and tenant are")
	}
	if asked.URL == "" {
		return asked, problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "url", "url is missing")
	}
	if asked.Tenant == "" {
		asked.Tenant = r.who.Tenant
	}
	return asked, nil
}
