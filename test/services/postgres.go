package services

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres returns the URL of the shared PostgreSQL, whose user waterclock may
// do everything. It fails the test if there is none to be had.
func Postgres(t testing.TB) string {
	t.Helper()
	skipShort(t, "PostgreSQL")
	if u := os.Getenv("WATERCLOCK_TEST_POSTGRES"); u != "" {
		return u
	}
	u, err := sharedPostgres()
	if err != nil {
		t.Fatalf("services: PostgreSQL: %v", err)
	}
	return u
}

var sharedPostgres = sync.OnceValues(startPostgres)

func startPostgres() (string, error) {
	h, err := newHome("PG_PORT=")
	if err != nil {
		return "", err
	}
	vars, err := h.script("postgres.sh", "prepare")
	if err != nil {
		h.remove()
		return "", err
	}
	server, err := serverUser()
	if err != nil {
		h.remove()
		return "", err
	}
	// SIGQUIT is its immediate shutdown; after SIGKILL it would leave shared memory behind.
	n, err := h.start(syscall.SIGQUIT, server, "postgres.sh", "run")
	if err != nil {
		h.remove()
		return "", err
	}
	at := vars["WATERCLOCK_TEST_POSTGRES"]
	if err := n.await(30*time.Second, func() error { return answersPostgres(at) },
		filepath.Join(h.dir, "postgres", "log")); err != nil {
		_ = n.stop(syscall.SIGQUIT, 10*time.Second)
		h.remove()
		return "", err
	}
	return at, nil
}

// serverUser is who the server runs as: PostgreSQL refuses to be root, so root
// gives way to Debian's user; anybody else stays who they are.
func serverUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find the server's user: %w", err)
	}
	uid, errU := strconv.ParseUint(u.Uid, 10, 32)
	gid, errG := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(errU, errG); err != nil {
		return nil, fmt.Errorf("find the server's user: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// answersPostgres sends a start-up packet and wants AuthenticationOk: a server that
// is still starting answers with an error.
func answersPostgres(at string) error {
	u, err := url.Parse(at)
	if err != nil {
		return err
	}
	conn, err := net.DialTimeout("tcp", u.Host, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
	params := "user\x00" + u.User.Username() + "\x00database\x00" + strings.TrimPrefix(u.Path, "/") + "\x00\x00"
	packet := append([]byte{0, 0, 0, byte(8 + len(params)), 0, 3, 0, 0}, params...) // protocol 3.0
	if _, err := conn.Write(packet); err != nil {
		return err
	}
	var kind [1]byte
	if _, err := conn.Read(kind[:]); err != nil {
		return err
	}
	if kind[0] != 'R' {
		return fmt.Errorf("it answered %q instead of accepting the log-in", kind[0])
	}
	return nil
}

// PostgresDatabase makes a database of the test's own on the shared PostgreSQL,
// and drops it afterwards. It returns its URL.
func PostgresDatabase(t testing.TB) string {
	t.Helper()
	shared := Postgres(t)
	name := fmt.Sprintf("test_%016x", rand.Uint64())
	statement(t, shared, "CREATE DATABASE "+name)
	t.Cleanup(func() { statement(t, shared, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(shared)
	if err != nil {
		t.Fatalf("services: PostgreSQL: %v", err)
	}
	u.Path = "/" + name
	return u.String()
}

func statement(t testing.TB, at, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatalf("services: PostgreSQL: %v", err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, text); err != nil {
		t.Fatalf("services: PostgreSQL: %s: %v", text, err)
	}
}
