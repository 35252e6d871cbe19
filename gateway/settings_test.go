package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// TestSettingsAreShown: an operator sees the settings as the process shows them.
func TestSettingsAreShown(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Settings = func() []Setting { return []Setting{{Key: "listen", Value: ":8080", Source: "default"}} }
	})
	want := `{"items":[{"key":"listen","value":":8080","source":"default"}]}`
	if got := strings.TrimSpace(w.must(http.StatusOK, "GET", "/v1/settings", "").body); got != want {
		t.Errorf("the settings are %s, want %s", got, want)
	}
}
