package services

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
)

// The log-in of a MailServer.
const (
	MailUser     = "relay"
	MailPassword = "canary-password"
)

// MailServer is Exim, Debian's mail server. A test starts it for each connection, as inetd would,
// so it leaves no process behind. It takes mails over TLS (STARTTLS) after a log-in, and delivers
// them into a directory. It refuses the user nobody, defers the user later, and refuses mails
// with FORBIDDEN in the subject.
type MailServer struct {
	Port int // on 127.0.0.1

	dir, mails string
	ln         net.Listener
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
  server_condition = ${if and{{eq{$auth2}{%[4]s}}{eq{$auth3}{%[5]s}}}}
  server_set_id = $auth2
`

// Mail starts a mail server for this test, with a certificate and its key in PEM. Without Exim it
// skips the test, or fails it under test/run.sh, which installs it.
func Mail(t testing.TB, cert, key []byte) *MailServer {
	t.Helper()
	path := eximPath(t)
	dir, err := os.MkdirTemp("", "waterclock-exim-") // t.TempDir is closed to the server's own user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &MailServer{dir: dir, mails: filepath.Join(dir, "mails")}
	config, err := m.writeFiles(path, cert, key)
	if err == nil {
		m.ln, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Port = m.ln.Addr().(*net.TCPAddr).Port
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := m.ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serveMail(t, path, config, c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { // before the directory is removed; the clients are closed by then
		m.ln.Close()
		all.Wait()
	})
	return m
}

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

// writeFiles returns the name of Exim's configuration.
func (m *MailServer) writeFiles(path string, cert, key []byte) (config string, err error) {
	if err := os.Chmod(m.dir, 0o755); err != nil {
		return "", err
	}
	owner, err := user.Current()
	if err != nil {
		return "", err
	}
	uid, gid := -1, -1 // as they are
	if u, err := user.Lookup("Debian-exim"); err == nil && os.Getuid() == 0 {
		owner = u
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
	}
	for _, sub := range []string{"mails", "spool", "log"} {
		name := filepath.Join(m.dir, sub)
		if err := os.Mkdir(name, 0o755); err != nil {
			return "", err
		}
		if err := os.Chown(name, uid, gid); err != nil {
			return "", err
		}
	}
	config = filepath.Join(m.dir, "exim.conf")
	for name, text := range map[string][]byte{
		filepath.Join(m.dir, "cert.pem"): cert, filepath.Join(m.dir, "key.pem"): key,
		config: fmt.Appendf(nil, eximConfig, m.dir, path, owner.Username, MailUser, MailPassword),
	} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return "", err
		}
	}
	return config, nil
}

// serveMail gives a connection to a process of Exim, and waits for its end.
func serveMail(t testing.TB, path, config string, c *net.TCPConn) {
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

// Arrived waits until n mails were delivered, and returns all.
func (m *MailServer) Arrived(t testing.TB, n int) (texts []string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		texts = nil
		files, err := os.ReadDir(m.mails)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if b, err := os.ReadFile(filepath.Join(m.mails, f.Name())); err == nil && !strings.Contains(f.Name(),
				"temp") {
				texts = append(texts, string(b))
			}
		}
		if len(texts) >= n {
			return texts
		}
		if time.Now().After(deadline) {
			logs, _ := filepath.Glob(filepath.Join(m.dir, "log", "*"))
			for _, l := range logs {
				b, _ := os.ReadFile(l)
				t.Logf("%s: %s", l, b)
			}
			t.Fatalf("%d mails, want %d", len(texts), n)
		}
	}
}
