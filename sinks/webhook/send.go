package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// send sends one request and returns the result. The time-out covers all of it: dial, TLS,
// headers and body.
func (w *Worker) send(ctx context.Context, r *Request) Answer {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	begun := time.Now()
	a := w.exchange(ctx, r)
	a.Took = time.Since(begun)
	if a.Err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		a.Err = context.DeadlineExceeded // whatever the time-out interrupted
	}
	return a
}

func (w *Worker) exchange(ctx context.Context, r *Request) Answer {
	req := (&http.Request{
		Method: http.MethodPost, URL: r.URL, Host: r.URL.Host, Header: r.Header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
		// If the receiver has closed the connection meanwhile, the request can be sent on a new
		// one.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.Body)), nil },
	}).WithContext(ctx)
	if len(r.Body) == 0 {
		req.Body, req.GetBody = http.NoBody, nil
	}
	resp, err := w.opts.Transport.RoundTrip(req)
	if err != nil {
		return Answer{Err: err}
	}
	defer resp.Body.Close()
	a := Answer{Status: resp.StatusCode, Header: resp.Header}
	a.Head, a.Err = readBody(resp.Body, w.opts.AnswerLimit)
	return a
}

// buffers are buffers for reading answers.
var buffers = sync.Pool{New: func() any { b := make([]byte, 4<<10); return &b }}

// readBody reads an answer to its end, so that its connection can be reused, and returns the
// first bytes.
func readBody(body io.Reader, limit int64) (head []byte, err error) {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	b := *p
	for total := int64(0); ; {
		n, err := body.Read(b)
		if free := headBytes - len(head); n > 0 && free > 0 {
			head = append(head, b[:min(n, free)]...)
		}
		total += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return head, nil
		case err != nil:
			return head, err
		case total > limit:
			return head, errTooLarge
		}
	}
}

// headBytes is more than a receipt shows, because blanks and unprintable characters are removed.
const headBytes = 512
