package peer

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A request is signed with
//
//	Authorization: Waterclock <session>.<number>.<unix time>.<HMAC-SHA-256 in hex>
//
// where the MAC covers all of that, the address that was asked, method, URI and
// body. The answer has a MAC too, in a trailer, over the request's MAC, status and
// body: an answer fits one request only. Sessions and numbers are there so that a
// request is answered once (replay.go).

const (
	signScheme = "Waterclock "
	answerMAC  = "Waterclock-Mac" // the trailer of an answer
)

// maxSkew is how far the clocks of two instances may be apart.
const maxSkew = time.Minute

// maxQuestion bounds the body of a request. Today's have none.
const maxQuestion = 64 << 10

// stamp is what makes a request the only one of its kind.
type stamp struct {
	session [8]byte // of the process that asks
	number  uint64  // of the request in it
	unix    int64
}

// signer makes the stamps of one process.
type signer struct {
	session [8]byte
	last    atomic.Uint64
}

func newSigner() *signer {
	s := &signer{}
	_, _ = rand.Read(s.session[:]) // never fails
	return s
}

// sign adds a signature to a request for an address, and returns its MAC.
func (s *signer) sign(secret []byte, r *http.Request, address string, body []byte, now time.Time) []byte {
	st := stamp{s.session, s.last.Add(1), now.Unix()}
	sum := requestMAC(secret, st, r, address, body)
	r.Header.Set("Authorization", fmt.Sprintf("%s%x.%d.%d.%x", signScheme, st.session, st.number, st.unix, sum))
	return sum
}

// macOf hashes texts so that no two lists of them read alike.
func macOf(secret []byte, label string, texts ...string) hash.Hash {
	m := hmac.New(sha256.New, secret)
	for _, t := range append([]string{label}, texts...) {
		m.Write(binary.AppendUvarint(nil, uint64(len(t))))
		m.Write([]byte(t))
	}
	return m
}

func requestMAC(secret []byte, st stamp, r *http.Request, address string, body []byte) []byte {
	return macOf(secret, "waterclock internal request 2", string(st.session[:]), strconv.FormatUint(st.number, 10),
		strconv.FormatInt(st.unix, 10), r.Method, address, r.URL.RequestURI(), string(body)).Sum(nil)
}

var (
	errUnsigned = errors.New("the request is not signed by an instance of this cluster: all instances need the same " +
		"internal.secret, and internal.advertise must be the address at which others reach this instance")
	errSkewed = errors.New("the request is over a minute old: the clocks of the two instances differ, or it was " +
		"held back")
)

// verify finds the secret that signed a request, and its stamp and MAC. All
// secrets are tried, in constant time each.
func verify(secrets [][]byte, r *http.Request, address string, body []byte, now time.Time) (
	secret, sum []byte, st stamp, err error,
) {
	st, given, ok := parseSignature(r.Header.Get("Authorization"))
	if !ok {
		return nil, nil, st, errUnsigned
	}
	for _, s := range secrets {
		if sum := requestMAC(s, st, r, address, body); hmac.Equal(given, sum) {
			if age := now.Sub(time.Unix(st.unix, 0)); age >= maxSkew || age <= -maxSkew {
				return nil, nil, st, errSkewed
			}
			return s, sum, st, nil
		}
	}
	return nil, nil, st, errUnsigned
}

func parseSignature(header string) (st stamp, sum []byte, ok bool) {
	text, ok := strings.CutPrefix(header, signScheme)
	parts := strings.Split(text, ".")
	if !ok || len(parts) != 4 || len(parts[0]) != 2*len(st.session) || len(parts[3]) != 2*sha256.Size {
		return st, nil, false
	}
	_, err1 := hex.Decode(st.session[:], []byte(parts[0]))
	number, err2 := strconv.ParseUint(parts[1], 10, 64)
	unix, err3 := strconv.ParseInt(parts[2], 10, 64)
	sum, err4 := hex.DecodeString(parts[3])
	st.number, st.unix = number, unix
	return st, sum, errors.Join(err1, err2, err3, err4) == nil
}

// answerHash is what an answer's MAC is made with. The body's own hash comes
// in while it is sent.
type answerHash struct {
	secret, request []byte
	body            hash.Hash
}

func newAnswerHash(secret, request []byte) *answerHash {
	return &answerHash{secret, request, sha256.New()}
}

func (a *answerHash) sum(status int) []byte {
	return macOf(a.secret, "waterclock internal answer 2", string(a.request), strconv.Itoa(status),
		string(a.body.Sum(nil))).Sum(nil)
}

// signedAnswer signs what is written to it.
type signedAnswer struct {
	http.ResponseWriter
	hash   *answerHash
	status int
}

func signAnswer(w http.ResponseWriter, secret, request []byte) *signedAnswer {
	w.Header().Set("Trailer", answerMAC)
	return &signedAnswer{w, newAnswerHash(secret, request), http.StatusOK}
}

func (s *signedAnswer) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

func (s *signedAnswer) Write(b []byte) (int, error) {
	n, err := s.ResponseWriter.Write(b)
	s.hash.body.Write(b[:n])
	return n, err
}

// end is called once the answer is whole; one that broke off has no MAC.
func (s *signedAnswer) end() { s.Header().Set(answerMAC, hex.EncodeToString(s.hash.sum(s.status))) }

// errForged is an answer that its owner has not signed, or that was changed on
// the way.
var errForged = errors.New("the answer is not signed by an instance of this cluster")

// checkAnswer reads what is left of a body and compares the MAC behind it. Until
// then nothing that was read of the body may be used.
func checkAnswer(resp *http.Response, body io.Reader, h *answerHash) error {
	if left, err := io.Copy(io.Discard, io.LimitReader(body, maxQuestion)); err != nil {
		return err
	} else if left == maxQuestion {
		return errForged
	}
	given, err := hex.DecodeString(resp.Trailer.Get(answerMAC))
	if err != nil || !hmac.Equal(given, h.sum(resp.StatusCode)) {
		return errForged
	}
	return nil
}
