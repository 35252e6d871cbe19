package gateway

import (
	"net/http"

	"github.com/waterclock/waterclock/gateway/auth"
)

// Whoami is who a caller is to this API.
type Whoami struct {
	Actor  string   `json:"actor" doc:"As events and the log name the caller; empty where no log-in is needed"`
	Tenant string   `json:"tenant"`
	Roles  []string `json:"roles" doc:"viewer, support, reader, writer, operator"`
	Rights []string `json:"rights" doc:"What the roles allow: read, payloads, act, write, operate"`

	History      bool     `json:"history" doc:"This instance has a history; without one there are no lists of events, dead letters and notifications"`
	TopicsPrefix string   `json:"topics_prefix" doc:"The names of our topics begin with it"`
	Brokers      []string `json:"brokers,omitempty" doc:"Where this instance finds Kafka, host:port; for operators"`
	BrokersAuth  bool     `json:"brokers_auth,omitempty" doc:"The brokers need TLS or a log-in; for operators"`
}

// identity says who a caller is, and how that caller reaches what this instance stands on.
type identity struct {
	history bool
	prefix  string
	brokers Brokers
}

func (s *identity) getWhoami(w http.ResponseWriter, r *request) error {
	who := Whoami{
		Actor: r.who.Name, Tenant: r.who.Tenant, Roles: r.who.Role.Names(), Rights: r.who.Role.Rights().Names(),
		History: s.history, TopicsPrefix: s.prefix,
	}
	if r.who.May(auth.Operate) {
		who.Brokers, who.BrokersAuth = s.brokers.Addresses, s.brokers.Auth
	}
	return sendJSON(w, http.StatusOK, who)
}
