package egress

import (
	"context"
	"errors"
	"io"
)

// ErrBodyTooLarge is the end of an answer that is longer than Limits.BodyBytes.
var ErrBodyTooLarge = errors.New("egress: the answer is too large")

// body reads no more than it may, and ends the time of its request.
type body struct {
	io.ReadCloser
	left   int64
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrBodyTooLarge
	}
	if int64(len(p)) > b.left+1 { // one more tells an end from a cut
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return n - 1, ErrBodyTooLarge
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
