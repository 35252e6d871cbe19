package providers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/wholefile"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/topics"
)

// OutboxOptions configure an Outbox.
type OutboxOptions struct {
	Dir    string       // created if needed
	Most   int          // number of messages to keep, newest first. 0 means 1,000
	Bytes  int          // bound on the size of their files. The newest is kept, however large it is. 0 means 32 MiB
	Logger *slog.Logger // nil logs nothing
	Now    func() time.Time
}

// Outbox writes messages to a folder, so that they can be seen without an account anywhere: a
// JSON file for each, and index.html, which lists them. It serves any channel.
type Outbox struct {
	opts OutboxOptions

	mu    sync.Mutex
	kept  map[string]keptMessage // by file name
	bytes int                    // of their files
	dirty chan struct{}          // the page is out of date
	done  chan struct{}          // ends the writer of the page
	ended chan struct{}          // it has ended
	once  sync.Once
}

var _ notify.Provider = (*Outbox)(nil)

type keptMessage struct {
	OutboxMessage

	bytes int // of its file
}

// OutboxMessage is the JSON of a file.
type OutboxMessage struct {
	ID             string            `json:"id"`
	SentAt         time.Time         `json:"sent_at"`
	Times          int               `json:"times"` // how often the same message was sent
	Channel        string            `json:"channel"`
	Tenant         string            `json:"tenant"`
	Trigger        string            `json:"trigger"`
	User           string            `json:"user_id,omitempty"`
	To             string            `json:"to"`
	Title          string            `json:"title,omitempty"`
	Body           string            `json:"body,omitempty"`
	HTML           string            `json:"html,omitempty"`
	DeepLink       string            `json:"deep_link,omitempty"`
	Data           map[string]string `json:"data,omitempty"`
	AckURL         string            `json:"ack_url,omitempty"`
	UnsubscribeURL string            `json:"unsubscribe_url,omitempty"`
	Locale         string            `json:"locale,omitempty"`
	High           bool              `json:"high,omitempty"`
	Expires        *time.Time        `json:"expires_at,omitempty"`
}

// outboxPage is the file with the list of messages.
const outboxPage = "index.html"

// NewOutbox opens the folder, or creates it.
func NewOutbox(o OutboxOptions) (*Outbox, error) {
	o.Most, o.Bytes = cmp.Or(o.Most, 1000), cmp.Or(o.Bytes, 32<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dir == "" {
		return nil, errors.New("outbox: a folder is needed")
	}
	// Messages contain names, addresses and acknowledgement links.
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	b := &Outbox{
		opts: o, kept: map[string]keptMessage{}, dirty: make(chan struct{}, 1),
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	if err := b.read(); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	if err := b.writePage(); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	go b.run()
	return b, nil
}

// read loads the messages of an earlier process.
func (b *Outbox) read() error {
	entries, err := os.ReadDir(b.opts.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isOutboxFile(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(b.opts.Dir, e.Name()))
		var m OutboxMessage
		if err == nil && json.Unmarshal(text, &m) == nil {
			b.keep(e.Name(), m, len(text))
		}
	}
	return nil
}

// isOutboxFile reports whether a file is ours. Other files are left alone.
func isOutboxFile(name string) bool {
	channel, rest, ok := strings.Cut(name, "-")
	sum, isJSON := strings.CutSuffix(rest, ".json")
	_, err := hex.DecodeString(sum)
	return ok && isJSON && err == nil && len(sum) == 32 && slices.Contains(topics.NotificationChannels, channel)
}

// Name returns outbox.
func (b *Outbox) Name() string { return "outbox" }

// Send writes a message. A repeated message replaces the first, and is counted.
func (b *Outbox) Send(ctx context.Context, m *notify.Message) notify.Answer {
	if ctx.Err() != nil {
		return notify.Answer{Result: worker.Retry(0).WithCode(worker.CodeTimeout)}
	}
	sum := sha256.Sum256([]byte(m.ID + "\x00" + m.Address))
	id := hex.EncodeToString(sum[:16])
	name := m.Channel + "-" + id + ".json"
	if !isOutboxFile(name) {
		return notify.Answer{Result: worker.Fail("invalid_channel", "outbox serves push, sms and email")}
	}
	one := OutboxMessage{
		ID: m.ID, SentAt: b.opts.Now().UTC(), Times: 1, Channel: m.Channel, Tenant: m.Tenant, Trigger: m.Trigger,
		User: m.User, To: m.Address, Title: m.Title, Body: m.Body, HTML: m.HTML, DeepLink: m.DeepLink, Data: m.Data,
		AckURL: m.AckURL, UnsubscribeURL: m.UnsubscribeURL, Locale: m.Locale, High: m.High,
	}
	if !m.Expires.IsZero() {
		one.Expires = new(m.Expires.UTC())
	}
	if err := b.write(name, one); err != nil {
		// The disk is full or gone, so the next message would fail too.
		return notify.Answer{
			Result: worker.Postpone(5*time.Second, "outbox_unwritable").WithDetail(err.Error()), Throttled: true,
		}
	}
	return notify.Answer{Result: worker.Accepted().WithDetail("written to the outbox"), Ref: id}
}

func (b *Outbox) write(name string, m OutboxMessage) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.Times = b.kept[name].Times + 1
	text, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = b.replace(name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write to the outbox: %w", err)
	}
	b.keep(name, m, len(text)+1)
	select {
	case b.dirty <- struct{}{}:
	default:
	}
	return nil
}

// replace writes a file of ours.
func (b *Outbox) replace(name string, text []byte) error {
	return wholefile.Write(filepath.Join(b.opts.Dir, name), 0o600, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// keep adds a message and deletes the oldest ones beyond the bounds. mu is held, or no other
// goroutine exists yet.
func (b *Outbox) keep(name string, m OutboxMessage, bytes int) {
	b.bytes += bytes - b.kept[name].bytes
	b.kept[name] = keptMessage{m, bytes}
	for len(b.kept) > b.opts.Most || b.bytes > b.opts.Bytes && len(b.kept) > 1 {
		oldest := ""
		for name, m := range b.kept {
			if oldest == "" || m.SentAt.Before(b.kept[oldest].SentAt) {
				oldest = name
			}
		}
		b.bytes -= b.kept[oldest].bytes
		delete(b.kept, oldest)
		if err := os.Remove(filepath.Join(b.opts.Dir, oldest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.opts.Logger.Warn("a message of the outbox cannot be deleted", "error", err)
		}
	}
}

// pageInterval is the minimum time between two writes of the page, because a write takes as long
// as the list is.
const pageInterval = 200 * time.Millisecond

func (b *Outbox) run() {
	defer close(b.ended)
	for {
		select {
		case <-b.done:
			return
		case <-b.dirty:
		}
		if err := b.writePage(); err != nil {
			b.opts.Logger.Warn("the page of the outbox cannot be written", "error", err)
		}
		select {
		case <-b.done:
			return
		case <-time.After(pageInterval):
		}
	}
}

// Close writes the page a last time.
func (b *Outbox) Close() error {
	var err error
	b.once.Do(func() {
		close(b.done)
		<-b.ended
		err = b.writePage()
	})
	return err
}

// Messages returns the stored messages, newest first.
func (b *Outbox) Messages() []OutboxMessage {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]OutboxMessage, 0, len(b.kept))
	for _, m := range b.kept {
		all = append(all, m.OutboxMessage)
	}
	slices.SortFunc(all, func(x, y OutboxMessage) int {
		return cmp.Or(y.SentAt.Compare(x.SentAt), cmp.Compare(x.ID, y.ID), cmp.Compare(x.To, y.To))
	})
	return all
}

// pageBytes bounds the texts on the page, because a browser reloads it every two seconds.
const pageBytes = 2 << 20

func (b *Outbox) writePage() error {
	all := b.Messages()
	shown, size := 0, 0
	for shown < len(all) && size < pageBytes {
		size += len(all[shown].Title) + len(all[shown].Body) + len(all[shown].HTML)
		shown++
	}
	var text bytes.Buffer
	if err := page.Execute(&text, struct {
		Messages    []OutboxMessage
		Kept, Older int
	}{all[:shown], len(all), len(all) - shown}); err != nil {
		return err
	}
	return b.replace(outboxPage, text.Bytes())
}

// link returns a URL to which the page links. A URL with another scheme than http or https is
// shown as text, because a click must not run anything.
func link(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return text
}

// page shows texts without interpretation. The HTML of mails is in a frame that runs no scripts.
var page = template.Must(template.New(outboxPage).Funcs(template.FuncMap{"link": link}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>Outbox: {{ .Kept }} message{{ if ne .Kept 1 }}s{{ end }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem }
article { border: 1px solid #8886; border-radius: 8px; padding: .7rem 1rem; margin: 1rem 0 }
h2 { font-size: 1rem; margin: 0 } pre { white-space: pre-wrap; margin: .4rem 0; font: inherit }
small { color: #777 } iframe { width: 100%; height: 14rem; border: 1px solid #8886 }
</style>
<h1>Outbox</h1>
{{ range .Messages }}<article>
<small>{{ .Channel }} to <b>{{ .To }}</b> · {{ .SentAt.Format "2006-01-02 15:04:05 MST" }}` +
	`{{ if .User }} · user {{ .User }}{{ end }} · {{ .Trigger }}` +
	`{{ if .High }} · high{{ end }}{{ if gt .Times 1 }} · came {{ .Times }} times{{ end }}</small>
{{ with .Title }}<h2>{{ . }}</h2>{{ end }}<pre>{{ .Body }}</pre>
{{ with .HTML }}<iframe sandbox srcdoc="{{ . }}"></iframe>{{ end }}
{{ with .DeepLink }}<div>Link: {{ with link . }}<a href="{{ . }}">{{ . }}</a>{{ else }}{{ . }}{{ end }}</div>{{ end }}
{{ with link .AckURL }}<div><a href="{{ . }}">Acknowledge</a></div>{{ end }}
{{ with link .UnsubscribeURL }}<div><a href="{{ . }}">Unsubscribe</a></div>{{ end }}
</article>
{{ else }}<p>Nothing was sent yet.</p>
{{ end }}{{ with .Older }}<p>Older messages that are in the folder, and not on this page: {{ . }}</p>
{{ end }}</html>
`))
