package providers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"
	"golang.org/x/sync/singleflight"

	"github.com/waterclock/waterclock/sinks/notify"
)

// account is a service account's key file.
type account struct {
	Type         string `json:"type"`
	ProjectID    string `json:"project_id"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	ClientEmail  string `json:"client_email"`
	TokenURI     string `json:"token_uri"`
}

const (
	googleTokenURL = "https://oauth2.googleapis.com/token"
	fcmScope       = "https://www.googleapis.com/auth/firebase.messaging"
)

// readAccount describes what is wrong with a key file, without quoting it.
func readAccount(b []byte) (*account, error) {
	a := new(account)
	if err := json.Unmarshal(b, a); err != nil {
		return nil, errors.New("the credentials are not JSON: use the key file of a service account")
	}
	switch {
	case a.Type != "service_account":
		return nil, errors.New("the credentials are not of type service_account: create a key of a service account")
	case a.ClientEmail == "" || a.PrivateKey == "":
		return nil, errors.New("the credentials have no client_email or no private_key")
	}
	if key, err := parseKey([]byte(a.PrivateKey)); err != nil || !isRSA(key) {
		return nil, errors.New("the private_key of the credentials is not an RSA key in PEM")
	}
	if a.TokenURI == "" {
		a.TokenURI = googleTokenURL
	}
	return a, nil
}

// How long before its end a token is replaced. At first it is fetched in the background while
// messages use the old one; later messages wait. The end counts by our clock, so our clock may
// differ from Google's by that much.
const (
	refreshEarly = 5 * time.Minute
	refreshNow   = 30 * time.Second
	// failedFor is how long a failure is cached. Meanwhile no message causes another fetch.
	failedFor = 5 * time.Second
	fetchIn   = 30 * time.Second
)

// googleTokens caches the access token of a service account
// (https://developers.google.com/identity/protocols/oauth2/service-account).
type googleTokens struct {
	caller *caller
	flight singleflight.Group

	mu      sync.Mutex
	account *account
	token   string
	expires time.Time
	problem *notify.Answer // of the last fetch
	until   time.Time      // end of its validity in the cache
}

func newGoogleTokens(c *caller) *googleTokens { return &googleTokens{caller: c} }

func (g *googleTokens) replace(a *account) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account, g.token, g.problem = a, "", nil
}

// forget drops a refused token if it is still in use.
func (g *googleTokens) forget(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == token {
		g.token = ""
	}
}

// get returns a token and the account's project, or the reason why there is none.
func (g *googleTokens) get(ctx context.Context) (token, project string, problem *notify.Answer) {
	g.mu.Lock()
	a, token, left := g.account, g.token, g.expires.Sub(g.caller.now())
	if left < refreshNow {
		token = ""
	}
	failed := g.problem != nil && g.caller.now().Before(g.until)
	if failed && token == "" {
		problem = g.problem
	}
	g.mu.Unlock()
	if failed || token != "" && left >= refreshEarly {
		return token, a.ProjectID, problem
	}
	fetched := g.flight.DoChan(a.PrivateKeyID+a.ClientEmail, func() (any, error) { return g.fetch(a), nil })
	if token != "" {
		return token, a.ProjectID, nil // later messages use the new token
	}
	select {
	case r := <-fetched:
		f := r.Val.(fetchedToken)
		return f.token, a.ProjectID, f.problem
	case <-ctx.Done():
		return "", "", new(tokenAnswer(reply{err: ctx.Err()}, g.caller.now()))
	}
}

// fetchedToken is the result of a fetch: a token or a problem.
type fetchedToken struct {
	token   string
	problem *notify.Answer
}

// fetch fetches a token from Google and caches it, or the problem.
func (g *googleTokens) fetch(a *account) fetchedToken {
	ctx, cancel := context.WithTimeout(context.Background(), fetchIn)
	defer cancel()
	via := &tokenTransport{ctx: ctx, caller: g.caller}
	asked := g.caller.now()
	t, err := (&jwt.Config{
		Email: a.ClientEmail, PrivateKey: []byte(a.PrivateKey), PrivateKeyID: a.PrivateKeyID,
		Scopes: []string{fcmScope}, TokenURL: a.TokenURI,
	}).TokenSource(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: via})).Token()
	var out fetchedToken
	if err != nil || t.AccessToken == "" {
		out.problem = new(tokenAnswer(via.reply, asked))
	} else {
		out.token = t.AccessToken
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.account != a: // replaced meanwhile
	case out.problem != nil:
		g.problem, g.until = out.problem, g.caller.now().Add(failedFor)
	default:
		g.token, g.problem = out.token, nil
		// Uses the duration of its validity, not the end, so Google's clock does not matter.
		good := time.Hour
		if !t.Expiry.IsZero() {
			good = time.Until(t.Expiry)
		}
		g.expires = asked.Add(good)
	}
	return out
}

// tokenTransport sends the library's request by the provider's caller. It keeps the reply,
// because the library's error has it only as text.
type tokenTransport struct {
	ctx    context.Context //nolint:containedctx // the library's request has none
	caller *caller
	reply  reply
}

// RoundTrip sends one request.
func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	t.reply = t.caller.do(t.ctx, r.Method, r.URL.String(), r.Header, body)
	if t.reply.err != nil {
		return nil, errors.New("no answer")
	}
	return &http.Response{
		StatusCode: t.reply.status, Header: t.reply.header, Request: r,
		Body: io.NopCloser(bytes.NewReader(t.reply.body)),
	}, nil
}

// tokenAnswer is the answer for messages if there is no token. None was sent.
func tokenAnswer(r reply, now time.Time) notify.Answer {
	switch {
	case r.err != nil:
		return throttled(awayWait, codeOf(r.err), "no access token: Google's token server does not answer")
	case r.status == http.StatusTooManyRequests, r.status/100 == 5:
		return throttled(retryAfter(r.header, now, awayWait), CodeUnavailable, "no access token: "+httpDetail(r))
	}
	var e struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	_ = json.Unmarshal(r.body, &e) // if the body has another form, the status alone is the reason
	detail := "no access token: " + httpDetail(r) + " " + clip(e.Error) + " " + clean(e.Description)
	if off := clockOff(r.header, now); off.Abs() > time.Minute {
		detail = fmt.Sprintf("no access token: this machine's clock is %s off Google's: correct it",
			off.Round(time.Second))
	}
	return misconfigured(CodeConfig, clean(detail))
}

// clockOff returns our clock minus the server's, or 0 if the answer has no Date.
func clockOff(h http.Header, now time.Time) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return now.Sub(date)
}
