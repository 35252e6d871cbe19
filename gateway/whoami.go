package gateway

import "net/http"

// Whoami is who a caller is to this API.
type Whoami struct {
	Actor  string   `json:"actor" doc:"As events and the log name the caller; empty where no log-in is needed"`
	Tenant string   `json:"tenant"`
	Roles  []string `json:"roles" doc:"viewer, support, reader, writer, operator"`
	Rights []string `json:"rights" doc:"What the roles allow: read, payloads, act, write, operate"`
}

// identity says who a caller is.
type identity struct{}

func (*identity) getWhoami(w http.ResponseWriter, r *request) error {
	return sendJSON(w, http.StatusOK, Whoami{
		Actor: r.who.Name, Tenant: r.who.Tenant, Roles: r.who.Role.Names(), Rights: r.who.Role.Rights().Names(),
	})
}
