package peer

import (
	"errors"
	"sync"
	"time"
)

// replays remembers which requests were answered, as long as they could come
// again: a window of numbers for each session, as IPsec does it. A number below
// the window is refused as if it were known.
type replays struct {
	mu   sync.Mutex
	seen map[[8]byte]*window
}

const (
	// windowBits is how far requests of one session may overtake each other.
	windowBits = 16_384
	// maxSessions bounds the instances that ask this one within a minute. Only who
	// has the secret opens a session.
	maxSessions = 1024
)

// window knows the last windowBits numbers of a session.
type window struct {
	high   uint64
	bits   [windowBits / 64]uint64
	latest int64 // unix time of its newest request
}

var (
	errReplayed = errors.New("the request was answered before")
	errSessions = errors.New("too many instances ask this one")
)

// admit says that a request with this stamp, whose signature was good, is the
// first.
func (r *replays) admit(st stamp, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.seen[st.session]
	if w == nil {
		if r.forget(now); len(r.seen) >= maxSessions {
			return errSessions
		}
		if r.seen == nil {
			r.seen = map[[8]byte]*window{}
		}
		w = &window{high: st.number}
		r.seen[st.session] = w
	}
	w.latest = max(w.latest, st.unix)
	if !w.add(st.number) {
		return errReplayed
	}
	return nil
}

// forget drops sessions of which no request can be young enough any more.
func (r *replays) forget(now time.Time) {
	if len(r.seen) < maxSessions {
		return
	}
	for session, w := range r.seen {
		if now.Sub(time.Unix(w.latest, 0)) > maxSkew {
			delete(r.seen, session)
		}
	}
}

// add says that the number is new.
func (w *window) add(n uint64) bool {
	if n+windowBits <= w.high {
		return false
	}
	for ; w.high < n; w.high++ { // what the window moves over is forgotten
		if n-w.high > windowBits {
			w.high = n - windowBits
		}
		at := w.high + 1
		w.bits[at/64%uint64(len(w.bits))] &^= 1 << (at % 64)
	}
	slot, bit := n/64%uint64(len(w.bits)), uint64(1)<<(n%64)
	if w.bits[slot]&bit != 0 {
		return false
	}
	w.bits[slot] |= bit
	return true
}
