package e2e

import (
	"context"
	"crypto"
	"encoding/pem"
	"fmt"
	"io"
	"mime/quotedprintable"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/trigger"
)

// TestOnePerson is the life of one user on dev with real servers: PostgreSQL for the preferences,
// and a mail server. Nobody reacts to a push, so an SMS follows, and then a mail, whose link
// acknowledges. An opt-out and quiet hours hold. Then the user is erased.
func TestOnePerson(t *testing.T) {
	phones := startPhones(t)
	flags, env := phones.settings(t)
	own := phones.TLS.Certificates[0]
	mail := services.Mail(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateKey(t, own.PrivateKey.(crypto.Signer), nil)}))
	database := services.PostgresDatabase(t)
	for _, s := range []string{
		"postgres.url=" + database, "providers.smtp.host=127.0.0.1", fmt.Sprintf("providers.smtp.port=%d", mail.Port),
		"providers.smtp.from=remind@example.com", "providers.smtp.username=" + services.MailUser,
		"providers.smtp.password=env:MAIL_PASSWORD",
	} {
		flags = append(flags, "--set", s)
	}
	w := newDevWorldIn(t, append(env, "MAIL_PASSWORD="+services.MailPassword), flags...)

	const user, number = "ada", "+4915112345678"
	prefer := func(more string) {
		t.Helper()
		wants(t, "preferences", w.call(t, http.MethodPut, "/v1/preferences/"+user, `{"timezone":"Europe/Vienna",`+more+
			`"addresses":{"push":[{"provider":"fcm","token":"adas"}],"sms":"`+number+`","email":"ada@example.org"}}`), 200)
	}
	register := func(id, more string) {
		t.Helper()
		wants(t, id, w.call(t, http.MethodPut, "/v1/triggers/"+id, `{"delay":"0s","user_id":"`+user+
			`","payload":{"title":"Pills","body":"Take two"},`+more+`}`), 201)
	}
	happened := func(id string, of trigger.FactType, reason string) {
		t.Helper()
		await(t, fmt.Sprintf("%s %s of %s", of, reason, id), func() bool {
			for _, e := range w.events(t)[id] {
				if e.Type == string(of) && e.Reason == reason {
					return true
				}
			}
			return false
		})
	}

	prefer("")
	register("pills", `"escalation":[{"channel":"push"},{"after":"2s","channel":"sms"},{"after":"2s","channel":"email"},`+
		`{"after":"1h","channel":"push"}]`)
	text := mail.Arrived(t, 1)[0]
	if phones.pushed("adas") == 0 || len(phones.sms(number)) == 0 {
		t.Errorf("a mail came after %d pushes and %d SMS", phones.pushed("adas"), len(phones.sms(number)))
	}
	body, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`https://wc\.example\.com(/a/[\w.~-]+)`).FindSubmatch(body)
	if link == nil {
		t.Fatalf("no link to acknowledge in %s", text)
	}
	wants(t, "the link", w.call(t, http.MethodPost, string(link[1]), ""), 200)
	happened("pills", trigger.EscalationStopped, "ack")
	a := w.call(t, http.MethodGet, "/v1/triggers/pills", "")
	if wants(t, "pills", a, 200); a.str("next_fire_at") != "" {
		t.Errorf("a further step is planned: %s", a.text)
	}
	if out, _, stderr := w.cli(t, "explain", "pills"); !strings.Contains(out, "acknowledged") {
		t.Errorf("explain says %s%s", out, stderr)
	}
	await(t, "its page", func() bool {
		a := w.call(t, http.MethodGet, "/v1/users/"+user+"/notifications?content=1", "")
		return strings.Contains(a.text, `"email"`) && strings.Contains(a.text, `"sms"`) &&
			strings.Contains(a.text, `"Take two"`)
	})

	prefer(`"opted_out_channels":["email"],`)
	register("unwanted", `"channel":"email"`)
	happened("unwanted", trigger.DeliverySuppressed, "opted_out")
	vienna, err := time.LoadLocation("Europe/Vienna")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().In(vienna)
	prefer(fmt.Sprintf(`"quiet_hours":{"from":%q,"to":%q},`, now.Add(-time.Hour).Format("15:04"),
		now.Add(2*time.Hour).Format("15:04")))
	register("night", `"channel":"sms"`)
	happened("night", trigger.DeliveryPostponed, "quiet_hours")
	before := len(phones.sms(number))
	register("urgent", `"channel":"sms","priority":"high"`)
	happened("urgent", trigger.DeliveryAccepted, "")
	if got := len(phones.sms(number)); got != before+1 {
		t.Errorf("%d SMS went out in the quiet hours, want the urgent one", got-before)
	}
	if got := len(mail.Arrived(t, 1)); got != 1 {
		t.Errorf("%d mails, the user wanted one", got)
	}

	if out, code, stderr := w.cli(t, "erase", "--user", user, "--wait"); code != 0 {
		t.Fatalf("erase: exit %d: %s%s", code, out, stderr)
	}
	if left := rowsAbout(t, database, `"`+user+`"`, number, "ada@example.org"); left != "" {
		t.Errorf("PostgreSQL has, of the erased user: %s", left)
	}
	if a := w.call(t, http.MethodGet, "/v1/triggers/night", ""); a.status != http.StatusNotFound {
		t.Errorf("a trigger of the erased user: %v", a)
	}
	a = w.call(t, http.MethodGet, "/v1/users/"+user+"/notifications?content=1", "")
	if strings.Contains(a.text, "Take two") {
		t.Errorf("the page of the erased user: %s", a.text)
	}
}

// rowsAbout returns the rows of all tables, as JSON, that have one of the words; "" if there are none.
func rowsAbout(t *testing.T, database string, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT quote_ident(table_schema) || '.' || quote_ident(table_name)
		FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		t.Fatalf("tables %v: %v", tables, err)
	}
	var found []string
	for _, table := range tables {
		rows, err := conn.Query(ctx, "SELECT to_jsonb(x)::text FROM "+table+" x")
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			for _, word := range words {
				if strings.Contains(text, word) {
					found = append(found, table+" "+text)
				}
			}
		}
	}
	return strings.Join(found, "\n")
}
