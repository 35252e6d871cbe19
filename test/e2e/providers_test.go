package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/twilio"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// The tokens that the providers below call dead.
const (
	deadPhone  = "dead-phone"
	deadTablet = "dead00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8"
	twilioSID  = "AC0123456789abcdef0123456789abcdef"
	twilioKey  = "auth-token-of-twilio"
)

// phoneWorld is FCM with Google's token server, APNs and Twilio: one server of HTTP/2 and
// TLS, which answers as their pages say:
//
//	https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode
//	https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
//	https://www.twilio.com/docs/messaging/api/message-resource
type phoneWorld struct {
	*httptest.Server
	mu     sync.Mutex
	protos []string
	pushes []string     // tokens that took one
	texts  []url.Values // SMS
	wrong  []string     // requests that no provider would take
}

func startPhones(t *testing.T) *phoneWorld {
	t.Helper()
	p := &phoneWorld{}
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.EnableHTTP2 = true
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func (p *phoneWorld) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.protos = append(p.protos, r.Proto)
	w.Header().Set("Content-Type", "application/json")
	device, apple := strings.CutPrefix(r.URL.Path, "/3/device/")
	answer := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	_, _, basic := r.BasicAuth()
	switch bearer := r.Header.Get("Authorization"); {
	case err != nil:
		p.wrong = append(p.wrong, err.Error())
	case r.URL.Path == "/token":
		answer(200, `{"access_token":"google-token","expires_in":3599,"token_type":"Bearer"}`)
	case r.URL.Path == "/v1/projects/p1/messages:send" && bearer == "Bearer google-token":
		var m struct{ Message struct{ Token string } }
		if err := json.Unmarshal(body, &m); err != nil {
			p.wrong = append(p.wrong, err.Error())
		}
		if m.Message.Token == deadPhone {
			answer(404, `{"error":{"code":404,"status":"NOT_FOUND","message":"Requested entity was not found.","details":`+
				`[{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"UNREGISTERED"}]}}`)
			return
		}
		p.pushes = append(p.pushes, m.Message.Token)
		answer(200, `{"name":"projects/p1/messages/m1"}`)
	case apple && strings.HasPrefix(bearer, "bearer ") && r.Header.Get("Apns-Topic") == "com.example.app":
		if device == deadTablet {
			answer(410, `{"reason":"Unregistered","timestamp":1700000000000}`)
			return
		}
		p.pushes = append(p.pushes, device)
		w.Header().Set("Apns-Id", r.Header.Get("Apns-Id"))
	case r.URL.Path == "/2010-04-01/Accounts/"+twilioSID+"/Messages.json" && basic:
		form, err := url.ParseQuery(string(body))
		if user, password, _ := r.BasicAuth(); err != nil || user != twilioSID || password != twilioKey {
			answer(401, `{"code":20003,"message":"Authenticate","status":401}`)
			return
		}
		p.texts = append(p.texts, form)
		answer(201, fmt.Sprintf(`{"sid":"SM%032d","status":"queued"}`, len(p.texts)))
	default:
		p.wrong = append(p.wrong, r.Method+" "+r.URL.Path+" "+bearer)
		answer(400, `{}`)
	}
}

// pushed says how often a token took a push.
func (p *phoneWorld) pushed(token string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.pushes {
		if t == token {
			n++
		}
	}
	return n
}

// sms are the SMS to a number.
func (p *phoneWorld) sms(to string) (all []url.Values) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, form := range p.texts {
		if form.Get("To") == to {
			all = append(all, form)
		}
	}
	return all
}

func pemFile(t *testing.T, dir, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	writeFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	return file
}

func privateKey(t *testing.T, key crypto.Signer, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// settings are what an operator sets for these providers, and the environment by which the
// process trusts their certificate.
func (p *phoneWorld) settings(t *testing.T) (flags, env []string) {
	t.Helper()
	dir := t.TempDir()
	google, err := rsa.GenerateKey(rand.Reader, 2048)
	account, err2 := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p1", "private_key_id": "k1", "token_uri": p.URL + "/token",
		"client_email": "sender@p1.iam.gserviceaccount.com", "private_key": string(pem.EncodeToMemory(&pem.Block{
			Type: "PRIVATE KEY", Bytes: privateKey(t, google, err),
		})),
	})
	if err2 != nil {
		t.Fatal(err2)
	}
	writeFile(t, filepath.Join(dir, "account.json"), string(account))
	apple, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for _, s := range []string{
		"public_url=https://wc.example.com",
		"providers.fcm.url=" + p.URL, "providers.fcm.credentials=file:" + filepath.Join(dir, "account.json"),
		"providers.apns.url=" + p.URL,
		"providers.apns.key=file:" + pemFile(t, dir, "apple.p8", "PRIVATE KEY", privateKey(t, apple, err)),
		"providers.apns.key_id=ABC123DEFG", "providers.apns.team_id=DEF123GHIJ", "providers.apns.topic=com.example.app",
		"providers.twilio.url=" + p.URL, "providers.twilio.account_sid=" + twilioSID,
		"providers.twilio.auth_token=env:TWILIO_KEY", "providers.twilio.from=+15005550006",
	} {
		flags = append(flags, "--set", s)
	}
	return flags, []string{
		"SSL_CERT_FILE=" + pemFile(t, dir, "ca.pem", "CERTIFICATE", p.Certificate().Raw), "TWILIO_KEY=" + twilioKey,
	}
}

// report calls the status callback of an SMS, as Twilio does through the proxy of public_url.
func (p *phoneWorld) report(t *testing.T, w *world, sms url.Values, key, status string) int {
	t.Helper()
	callback := sms.Get("StatusCallback")
	rest, ours := strings.CutPrefix(callback, "https://wc.example.com")
	if !ours {
		t.Fatalf("the status callback is %q", callback)
	}
	form := url.Values{"MessageStatus": {status}, "MessageSid": {"SM1"}, "To": {sms.Get("To")}}
	return w.call(t, http.MethodPost, rest, form.Encode(), "Content-Type", "application/x-www-form-urlencoded",
		twilio.SignatureHeader, twilio.Sign(key, callback, form)).status
}

// Push by FCM and APNs, SMS by Twilio, with settings alone: each takes messages, dead tokens
// leave the preferences and the event's reason says why, and Twilio's report that an SMS
// was delivered ends the escalation.
func TestProviders(t *testing.T) {
	t.Run("dev", func(t *testing.T) {
		t.Parallel()
		phones := startPhones(t)
		flags, env := phones.settings(t)
		providersStory(t, newDevWorldIn(t, env, flags...), phones)
	})
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t, 4)
		phones := startPhones(t)
		flags, env := phones.settings(t)
		file, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		w := &world{name: "serve", brokers: c.brokers, prefix: c.prefix, partitions: 4, cluster: c}
		w.node = startAs(t, "serve", file, env, slices.Concat([]string{
			"serve", "--roles", "engine,api,push,sms", "--data-dir", t.TempDir(),
			"--set", "postgres.url=" + services.PostgresDatabase(t),
		}, c.args, flags)...)
		w.node.ready(60 * time.Second)
		providersStory(t, w, phones)
	})
}

func providersStory(t *testing.T, w *world, phones *phoneWorld) {
	const tablet = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0" // of Apple's page
	prefer := func(user, addresses string) {
		t.Helper()
		wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/"+user, `{"addresses":`+addresses+`}`), 200)
	}
	register := func(id, user, more string) {
		t.Helper()
		wants(t, id, w.call(t, http.MethodPut, "/v1/triggers/"+id, `{"delay":"0s","user_id":"`+user+
			`","payload":{"title":"Pills","body":"Take two"},`+more+`}`), 201)
	}
	event := func(id string, of trigger.FactType) (e topics.Event) {
		t.Helper()
		await(t, string(of)+" of "+id, func() bool {
			all := w.events(t)[id]
			i := slices.IndexFunc(all, func(e topics.Event) bool { return e.Type == string(of) })
			if i >= 0 {
				e = all[i]
			}
			return i >= 0
		})
		return e
	}
	// Each push goes to both installations, by the provider of each.
	prefer("ada", `{"push":[{"provider":"fcm","token":"phone"},{"provider":"apns","token":"`+tablet+`"}]}`)
	register("both", "ada", `"channel":"push"`)
	event("both", trigger.DeliveryAccepted)
	if phones.pushed("phone") == 0 || phones.pushed(tablet) == 0 { // at least once
		t.Error("an installation got no push")
	}

	// A dead token is removed; the other goes on.
	prefer("bob", `{"push":[{"provider":"fcm","token":"`+deadPhone+`"},{"provider":"apns","token":"`+tablet+`"}]}`)
	register("half", "bob", `"channel":"push"`)
	event("half", trigger.DeliveryAccepted)
	want := `"addresses":{"push":[{"provider":"apns","token":"` + tablet + `"}]}`
	if a := w.call(t, http.MethodGet, "/v1/preferences/bob", ""); !strings.Contains(a.text, want) {
		t.Errorf("bob has %s, want %s", a.text, want)
	}
	for user, c := range map[string]struct{ provider, token, reason string }{
		"eve": {"fcm", deadPhone, "UNREGISTERED"}, "dan": {"apns", deadTablet, "Unregistered"},
	} {
		prefer(user, `{"push":[{"provider":"`+c.provider+`","token":"`+c.token+`"}]}`)
		register("dead-"+user, user, `"channel":"push"`)
		e := event("dead-"+user, trigger.DeliveryFailed)
		if e.Reason != c.reason || strings.Contains(e.Detail, c.token) {
			t.Errorf("%s: %s %s (%s), want %s", user, e.Type, e.Reason, e.Detail, c.reason)
		}
		if a := w.call(t, http.MethodGet, "/v1/preferences/"+user, ""); strings.Contains(a.text, c.token) {
			t.Errorf("a dead token stays: %s", a.text)
		}
	}

	// The push is accepted and no more, so an SMS follows. It is delivered: no third step.
	const number = "+4915112345678"
	prefer("kim", `{"push":[{"provider":"fcm","token":"kims"}],"sms":"`+number+`"}`)
	register("ladder", "kim", `"escalation":[{"channel":"push"},{"after":"1s","channel":"sms"},`+
		`{"after":"1h","channel":"push"}]`)
	await(t, "the SMS", func() bool { return len(phones.sms(number)) > 0 })
	sms := phones.sms(number)[0]
	if body := sms.Get("Body"); !strings.HasPrefix(body, "Pills\nTake two") || sms.Get("From") != "+15005550006" {
		t.Errorf("the SMS is %v", sms)
	}
	if got := phones.report(t, w, sms, "somebody else's key", "delivered"); got != http.StatusForbidden {
		t.Errorf("a forged report: %d", got)
	}
	for _, status := range []string{"sending", "sent", "delivered", "delivered"} {
		if got := phones.report(t, w, sms, twilioKey, status); got != http.StatusNoContent {
			t.Errorf("a report %s: %d", status, got)
		}
	}
	if e := event("ladder", trigger.DeliveryDelivered); e.Channel != "sms" || e.Step == nil || *e.Step != 1 {
		t.Errorf("delivered: %+v", e)
	}
	if e := event("ladder", trigger.EscalationStopped); e.Reason != "delivered" {
		t.Errorf("the escalation stopped: %+v", e)
	}
	await(t, "no step is planned", func() bool {
		a := w.call(t, http.MethodGet, "/v1/triggers/ladder", "")
		return a.status == 200 && a.str("next_fire_at") == "" && a.str("state") == "FIRED"
	})
	if phones.pushed("kims") == 0 {
		t.Error("the first step got no push")
	}
	phones.mu.Lock()
	defer phones.mu.Unlock()
	if len(phones.wrong) > 0 {
		t.Errorf("requests that no provider takes: %q", phones.wrong)
	}
	if !slices.Contains(phones.protos, "HTTP/2.0") {
		t.Errorf("the providers were called by %v", slices.Compact(phones.protos))
	}
}
