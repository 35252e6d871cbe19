package gateway

import (
	"net/http"

	"github.com/waterclock/waterclock/gateway/auth"
)

// Setting is a setting of the instance that answers.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value" doc:"Masked if it is a secret"`
	Source string `json:"source" doc:"default, or the file, variable or flag that sets it"`
}

// Settings are all settings of the instance that answers.
type Settings struct {
	Items []Setting `json:"items"`
}

func settingRoutes(p *parts) []route {
	return []route{{
		method: http.MethodGet, pattern: "/v1/settings", right: auth.Operate, handle: p.settings.list,
		doc: operation{
			id: "listSettings", summary: "List the settings of the instance that answers; secrets are masked",
			answers: answers{200: of[Settings]()},
		},
	}}
}

// settings shows how this instance is set up.
type settings struct{ all func() []Setting }

func (s *settings) list(w http.ResponseWriter, _ *request) error {
	list := Settings{Items: []Setting{}}
	if s.all != nil {
		list.Items = append(list.Items, s.all()...)
	}
	return sendJSON(w, http.StatusOK, list)
}
