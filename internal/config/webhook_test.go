package config

import (
	"reflect"
	"strings"
	"testing"
)

// Signing keys and headers are references; what is wrong with one is said by
// name, and never shows the value.
func TestWebhookSettings(t *testing.T) {
	const key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	t.Setenv("HOOK_KEY", key)
	t.Setenv("HOOK_TOKEN", "Bearer x")
	token := write(t, "token", "Bearer y\n")
	file := write(t, "w.yaml", `
webhook: {secret: "env:HOOK_KEY,file:`+write(t, "key", key+"\n")+`"}
tenants: {acme: {webhook_secret: `+key+`}}
endpoints:
  https://hooks.example.com:
    rate: 2.5
    headers: {Authorization: "env:HOOK_TOKEN", X-Key: "file:`+token+`"}
  http://10.0.0.5:8080: {paused: true}
`)
	c, err := Load(Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if _, secrets, err := c.WebhookSecrets("other"); err != nil || !reflect.DeepEqual(secrets, []string{key, key}) {
		t.Errorf("%v, %v", secrets, err)
	}
	if setting, secrets, err := c.WebhookSecrets("acme"); err != nil || len(secrets) != 1 ||
		setting != "tenants.acme.webhook_secret" {
		t.Errorf("%s %v, %v", setting, secrets, err)
	}
	h, err := c.EndpointHeaders("https://hooks.example.com")
	if err != nil || h.Get("Authorization") != "Bearer x" || h.Get("X-Key") != "Bearer y" {
		t.Errorf("%v, %v", h, err)
	}
	if e := c.Endpoints["https://hooks.example.com"]; e.Rate != 2.5 || !c.Endpoints["http://10.0.0.5:8080"].Paused {
		t.Errorf("%+v", e)
	}
	rotated := write(t, "rotated", key+" , "+key+"\n")
	c.Webhook.Secret = "file:" + rotated
	if _, secrets, err := c.WebhookSecrets("other"); err != nil || !reflect.DeepEqual(secrets, []string{key, key}) {
		t.Errorf("a file with two keys: %v, %v", secrets, err)
	}
	c.Webhook.Secret = "env:HOOK_KEY,file:" + rotated
	if _, secrets, err := c.WebhookSecrets("other"); err == nil {
		t.Errorf("three keys in two places: %v", secrets)
	}
	c.Webhook.Secret = "file:" + write(t, "commas", " ,\n")
	if _, secrets, err := c.WebhookSecrets("other"); err == nil {
		t.Errorf("a file without a key signs nothing: %v", secrets)
	}
	c.Webhook.Secret = "file:" + rotated
	if files := c.WebhookFiles(); len(files) != 2 {
		t.Errorf("files to watch: %v", files)
	}
	for _, v := range c.Values() {
		if strings.Contains(v.Value, "MfKQ9r8") {
			t.Errorf("%s shows %s", v.Key, v.Value)
		}
	}

	t.Setenv("HOOK_EVIL", "a\r\nX-Trigger-Id: 1")
	for yaml, want := range map[string]string{
		"webhook: {secret: 'env:NOBODY_SET_THIS'}":                               "NOBODY_SET_THIS is unset",
		"webhook: {secret: 'file:/nowhere/at/all'}":                              "/nowhere/at/all",
		"webhook: {secret: marked-secret}":                                       "is not a key",
		"webhook: {secret: '" + key + "," + key + "," + key + "'}":               "at most two",
		"webhook: {secret: ','}":                                                 "is not a key",
		"tenants: {a: {webhook_secret: whsec_YQ==}}":                             "tenants.a.webhook_secret",
		"endpoints: {'https://a.example/path': {paused: true}}":                  "is not an origin",
		"endpoints: {'https://A.example': {paused: true}}":                       "is not an origin",
		"endpoints: {'ftp://a.example': {paused: true}}":                         "is not an origin",
		"endpoints: {'http://[fd00:0::5]:8080': {paused: true}}":                 "is not an origin",
		"endpoints: {'https://a.example': {headers: {Authorization: marked}}}":   "env:NAME or file:PATH",
		"endpoints: {'https://a.example': {headers: {Host: 'env:HOOK_TOKEN'}}}":  "set by the worker",
		"endpoints: {'https://a.example': {headers: {ce-id: 'env:HOOK_TOKEN'}}}": "set by the worker",
		"endpoints: {'https://a.example': {headers: {'X Y': 'env:HOOK_TOKEN'}}}": "is not a header name",
		"endpoints: {'https://a.example': {headers: {X-A: 'env:HOOK_EVIL'}}}":    "line end",
		"endpoints: {'https://a.example': {headers: {X-A: 'env:HOOK_NONE'}}}":    "HOOK_NONE is unset",
		"endpoints: {'https://a.example': {rate: -1}}":                           "rate",
	} {
		_, err := Load(Options{File: write(t, "bad.yaml", yaml)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "marked") {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}
