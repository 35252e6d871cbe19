package providers

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// eximPath finds Debian's mail server. test/setup.sh installs it for `make test`.
func eximPath(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"exim4", "/usr/sbin/exim4", "exim"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("WATERCLOCK_TEST_KAFKA") != "" {
		t.Fatal("no exim4: run test/setup.sh")
	}
	t.Skip("no exim4 here: test/run.sh has it")
	return ""
}

// exim is a real mail server, Exim. A process is started for each connection as inetd does, so it
// needs no port and leaves no process.
type exim struct {
	dir, mails string
	ln         net.Listener
	cert       certificate
}

const eximConfig = `
primary_hostname = mx.example.org
spool_directory = %[1]s/spool
log_file_path = %[1]s/log/%%slog
pid_file_path = %[1]s/exim.pid
exim_path = %[2]s
acl_smtp_rcpt = check_rcpt
acl_smtp_data = check_data
tls_advertise_hosts = *
tls_certificate = %[1]s/cert.pem
tls_privatekey = %[1]s/key.pem
auth_advertise_hosts = ${if eq{$tls_in_cipher}{}{}{*}}
host_lookup =
rfc1413_query_timeout = 0s
keep_environment =
never_users =
smtp_accept_queue_per_connection = 0
begin acl
check_rcpt:
  deny    !authenticated = *
          message = 5.7.1 relaying needs a log-in
  deny    local_parts = nobody
          message = 5.1.1 no such user
  defer   local_parts = later
          message = 4.2.1 the mailbox is busy
  accept
check_data:
  deny    condition = ${if match{$rh_subject:}{FORBIDDEN}}
          message = 5.7.1 this text is not wanted
  accept
begin routers
all:
  driver = accept
  transport = files
begin transports
files:
  driver = appendfile
  directory = %[1]s/mails
  directory_file = $message_exim_id
  create_directory = false
  user = %[3]s
  delivery_date_add
  envelope_to_add
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = ${if and{{eq{$auth2}{relay}}{eq{$auth3}{canary-password}}}}
  server_set_id = $auth2
`

func newExim(t testing.TB) *exim {
	t.Helper()
	path := eximPath(t)
	dir, err := os.MkdirTemp("", "waterclock-exim-") // the server's own user cannot read t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	e := &exim{dir: dir, mails: filepath.Join(dir, "mails"), cert: newCertificate(t)}
	owner := "root"
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"mails", "spool", "log"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string][]byte{"cert.pem": e.cert.cert, "key.pem": e.cert.key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if u, err := user.Lookup("Debian-exim"); err == nil && os.Getuid() == 0 {
		owner = u.Username
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		for _, sub := range []string{"mails", "spool", "log"} {
			if err := os.Chown(filepath.Join(dir, sub), uid, gid); err != nil {
				t.Fatal(err)
			}
		}
	} else if u, err := user.Current(); err == nil {
		owner = u.Username
	}
	config := filepath.Join(dir, "exim.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, eximConfig, dir, path, owner), 0o644); err != nil {
		t.Fatal(err)
	}
	if e.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := e.ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { e.serve(t, path, config, c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { // before the folder is removed; the provider is closed by then
		e.ln.Close()
		all.Wait()
	})
	return e
}

// serve passes a connection to a process of Exim, and waits for its end.
func (e *exim) serve(t testing.TB, path, config string, c *net.TCPConn) {
	f, err := c.File()
	c.Close()
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	// -odi delivers before the answer, in the foreground.
	cmd := exec.Command(path, "-C", config, "-odi", "-bs")
	cmd.Stdin, cmd.Stdout = f, f
	var complaints strings.Builder
	cmd.Stderr = &complaints
	if err := cmd.Run(); err != nil && complaints.Len() > 0 {
		t.Logf("exim: %v: %s", err, complaints.String())
	}
}

// arrived waits for n mails.
func (e *exim) arrived(t testing.TB, n int) (texts []string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		texts = nil
		files, err := os.ReadDir(e.mails)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if b, err := os.ReadFile(filepath.Join(e.mails, f.Name())); err == nil && !strings.Contains(f.Name(),
				"temp") {
				texts = append(texts, string(b))
			}
		}
		if len(texts) >= n {
			return texts
		}
		if time.Now().After(deadline) {
			logs, _ := filepath.Glob(filepath.Join(e.dir, "log", "*"))
			for _, l := range logs {
				b, _ := os.ReadFile(l)
				t.Logf("%s: %s", l, b)
			}
			t.Fatalf("%d mails, want %d", len(texts), n)
		}
	}
}

// Mails through a real mail server: STARTTLS, login, several mails on one connection, and
// refusals.
func TestSMTPExim(t *testing.T) {
	e := newExim(t)
	o := SMTPOptions{
		Host: "127.0.0.1", Port: e.ln.Addr().(*net.TCPAddr).Port, From: "Waterclock <remind@example.com>",
		Roots: e.cert.roots, Username: "relay", Password: func() (string, error) { return "canary-password", nil },
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
	all := strings.Join(e.arrived(t, 3), "\n")
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
	if n := len(e.arrived(t, 3)); n != 3 {
		t.Errorf("%d mails", n)
	}
}
