package providers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/test/services"
)

// TestSMTPExim sends mails through a real mail server: STARTTLS, log-in, several mails by one
// connection, and what it refuses.
func TestSMTPExim(t *testing.T) {
	cert := newCertificate(t)
	e := services.Mail(t, cert.cert, cert.key)
	o := SMTPOptions{
		Host: "127.0.0.1", Port: e.Port, From: "Waterclock <remind@example.com>",
		Roots: cert.roots, Username: services.MailUser,
		Password: func() (string, error) { return services.MailPassword, nil },
	}
	p := newSMTP(t, o)
	for i := range 3 {
		m := mailTo(fmt.Sprintf("ada%d@example.org", i))
		m.ID = fmt.Sprint(i)
		if a := p.Send(t.Context(), m); a.Result.Outcome != worker.OutcomeAccepted ||
			!strings.Contains(a.Result.Detail, "OK id=") {
			t.Fatalf("%+v", a)
		}
	}
	all := strings.Join(e.Arrived(t, 3), "\n")
	for _, want := range []string{
		"Envelope-to: ada0@example.org", "Envelope-to: ada2@example.org", "Subject: =?UTF-8?q?Tabletten_f=C3=BCr_Ada?=",
		"List-Unsubscribe-Post: List-Unsubscribe=One-Click", "Auto-Submitted: auto-generated",
		"<p>Nimm <b>zwei</b>.</p>",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %s", want, all)
		}
	}
	forbidden := mailTo("ada@example.org")
	forbidden.Title = "FORBIDDEN"
	for _, c := range []struct {
		name    string
		message func() (a worker.Result)
		outcome worker.Outcome
		code    string
	}{
		{
			"no such user", func() worker.Result { return p.Send(t.Context(), mailTo("nobody@example.org")).Result },
			worker.OutcomeFailed, "5.1.1",
		},
		{
			"busy", func() worker.Result { return p.Send(t.Context(), mailTo("later@example.org")).Result },
			worker.OutcomeRetry, "4.2.1",
		},
		{"text", func() worker.Result { return p.Send(t.Context(), forbidden).Result }, worker.OutcomeFailed, "5.7.1"},
		{"wrong password", func() worker.Result {
			o.Password = func() (string, error) { return "other", nil }
			return newSMTP(t, o).Send(t.Context(), mailTo("ada@example.org")).Result
		}, worker.OutcomePostponed, "smtp_535"},
		{"no password", func() worker.Result {
			o.Username = ""
			return newSMTP(t, o).Send(t.Context(), mailTo("ada@example.org")).Result
		}, worker.OutcomeFailed, "5.7.1"},
	} {
		if r := c.message(); r.Outcome != c.outcome || r.Code != c.code || strings.Contains(r.Detail, "canary") {
			t.Errorf("%s: %+v, want %s %s", c.name, r, c.outcome, c.code)
		}
	}
	if n := len(e.Arrived(t, 3)); n != 3 {
		t.Errorf("%d mails", n)
	}
}
