package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxSkew is how far the clocks of two instances may be apart, and so how
// long an overheard request could be repeated; all it could do is read again.
const maxSkew = time.Minute

// sign makes the bearer token of one request: <unix>.<hex HMAC-SHA-256 of
// unix and the request's URI>.
func sign(secret []byte, uri string, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return at + "." + hex.EncodeToString(mac(secret, at, uri))
}

func mac(secret []byte, at, uri string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("waterclock internal\n" + at + "\n" + uri))
	return m.Sum(nil)
}

// signed says that a request carries such a token, made by who has the secret.
func signed(secret []byte, r *http.Request, now time.Time) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	at, sum, cut := strings.Cut(token, ".")
	unix, err1 := strconv.ParseInt(at, 10, 64)
	given, err2 := hex.DecodeString(sum)
	if !ok || !cut || err1 != nil || err2 != nil || len(secret) == 0 {
		return false
	}
	age := now.Sub(time.Unix(unix, 0))
	return hmac.Equal(given, mac(secret, at, r.URL.RequestURI())) && age < maxSkew && age > -maxSkew
}
