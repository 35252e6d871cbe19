package auth

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
)

// keySet is the issuer's keys. Anybody may send a token that names a key we do
// not have, so what the issuer is asked does not follow the tokens that come: it
// is asked for a key that is unknown, at most every fetchEvery, one at a time, and
// once an hour, so that a key it has withdrawn does not count for ever.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time

	flight singleflight.Group
	mu     sync.Mutex
	keys   []jose.JSONWebKey // as last fetched; nil: never
	asked  time.Time         // when the last fetch ended
	got    time.Time         // when the last one that worked ended
}

const (
	// fetchEvery bounds how often the issuer is asked for keys.
	fetchEvery = 30 * time.Second
	// keepFor is how long keys count without a look at whether they still do.
	keepFor = time.Hour
	// maxIssuerAnswer bounds what the issuer may send. Key sets have a few KiB.
	maxIssuerAnswer = 1 << 20
)

var (
	errUnknownSigner = errors.New("the token's key is not one of the issuer's")
	errNoKeys        = errors.New("the issuer's keys are not available")
)

// find are the keys a token with this header may be signed with. The error is
// errUnknownSigner where there is none, else that the issuer does not answer.
func (s *keySet) find(ctx context.Context, h *jose.Header) ([]crypto.PublicKey, error) {
	s.mu.Lock()
	found, known, stale := s.fitting(h), s.keys != nil, s.now().Sub(s.got) >= keepFor
	may := s.mayAsk()
	s.mu.Unlock()
	if len(found) > 0 && (!stale || !may) {
		return found, nil
	}
	if !may {
		if known {
			return nil, errUnknownSigner
		}
		return nil, errNoKeys
	}
	if err := s.refresh(ctx); err != nil {
		if len(found) > 0 {
			return found, nil // a key that we have does not depend on an issuer that is away
		}
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found = s.fitting(h); len(found) == 0 {
		return nil, errUnknownSigner
	}
	return found, nil
}

// mayAsk is asked under the lock. Until there are any keys nobody can come in, so
// an issuer that is away is asked as often as for its discovery.
func (s *keySet) mayAsk() bool {
	every := fetchEvery
	if s.keys == nil {
		every = discoverEvery
	}
	return s.asked.IsZero() || s.now().Sub(s.asked) >= every
}

// fitting is asked under the lock.
func (s *keySet) fitting(h *jose.Header) (keys []crypto.PublicKey) {
	for i := range s.keys {
		k := &s.keys[i]
		if (h.KeyID == "" || k.KeyID == h.KeyID) && (k.Algorithm == "" || k.Algorithm == h.Algorithm) {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// refresh fetches the keys, or waits for who does.
func (s *keySet) refresh(ctx context.Context) error {
	done := s.flight.DoChan("", func() (any, error) {
		s.mu.Lock()
		may := s.mayAsk() // no more if one ended between the question and here
		s.mu.Unlock()
		if !may {
			return nil, nil
		}
		keys, err := s.fetch()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = s.now()
		if err == nil {
			s.keys, s.got = keys, s.asked
		}
		return nil, err
	})
	select {
	case answer := <-done:
		return answer.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *keySet) fetch() ([]jose.JSONWebKey, error) {
	resp, err := s.client.Get(s.url)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch keys of %s: %s", s.url, resp.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&set); err != nil {
		return nil, fmt.Errorf("keys of %s: %w", s.url, err)
	}
	keys := []jose.JSONWebKey{}
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		// A key of a kind we do not know, a secret one, or one for encryption, is
		// not for us; the others still count.
		if json.Unmarshal(raw, &k) == nil && k.Valid() && k.IsPublic() && k.Use != "enc" {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// issuerClient bounds what an issuer sends, and follows it to no address in the
// clear.
func issuerClient(from *http.Client) *http.Client {
	c := *from
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = bounded{next}
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > 5 {
			return errors.New("too many redirects")
		}
		return trustworthy(r.URL.String())
	}
	return &c
}

type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxIssuerAnswer), resp.Body}
	}
	return resp, err
}

// trustworthy refuses an address in the clear, beyond loopback: whoever is on the
// way could hand out keys of their own.
func trustworthy(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return errors.New("the issuer is not a URL: write for example https://id.example.com")
	case u.Scheme == "https":
		return nil
	case u.Scheme != "http":
		return errors.New("the issuer's URL is neither https nor http")
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("%s is plain http, where others could replace the keys: use https", u.Host)
}

// types are what a token may say it is: nothing, a JWT, or an access token (RFC
// 9068). Others, such as logout tokens, an issuer signs for other ends.
var types = []string{"", "jwt", "at+jwt", "application/jwt", "application/at+jwt"}

// headerOf reads what a token says of its signature, which is not verified yet.
func headerOf(token string, algorithms []string) (*jose.Header, error) {
	algs := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, a := range algorithms {
		algs[i] = jose.SignatureAlgorithm(a)
	}
	jws, err := jose.ParseSignedCompact(token, algs)
	if err != nil {
		return nil, err
	}
	h := &jws.Signatures[0].Protected
	typ, given := h.ExtraHeaders[jose.HeaderType]
	text, isText := typ.(string)
	if given && !isText || !slices.Contains(types, strings.ToLower(text)) {
		return nil, fmt.Errorf("a token of type %v is not accepted", typ)
	}
	return h, nil
}
