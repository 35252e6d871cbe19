package acklink_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/acklink"
)

// Links in mails live for days: what a release has made is read by the next ones. The golden
// token is made by hand, from docs/formats/ack-links.md.
const golden = "AQAAAABrBqOQYWNtZS9yZW50QDIwMjYtMTEtMjBUMDk6MDA6MDAjMQAnyH5nq0d4rnofTW35hLo"

var (
	secrets = []string{"fedcba9876543210", "0123456789abcdef"}
	link    = acklink.Link{DueID: "acme/rent@2026-11-20T09:00:00#1", Expires: time.Unix(1795597200, 0)}
	before  = link.Expires.Add(-time.Second)
)

func TestGolden(t *testing.T) {
	if got, err := acklink.Open(secrets, golden, before); err != nil || got != link {
		t.Fatal(got, err)
	}
	const public = "https://wc.example.com/base"
	if got := acklink.URL(public+"/", secrets[1:], link); got != public+"/a/"+golden {
		t.Fatal(got)
	}
}

func TestOpen(t *testing.T) {
	for _, c := range []struct {
		name, token string
		secrets     []string
		now         time.Time
		want        error
	}{
		{"good", golden, secrets, before, nil},
		{"at its end", golden, secrets, link.Expires, acklink.ErrExpired},
		{"long after", golden, secrets, link.Expires.AddDate(9, 0, 0), acklink.ErrExpired},
		{"another secret", golden, secrets[:1], before, acklink.ErrForged},
		{"another secret, expired", golden, secrets[:1], link.Expires, acklink.ErrForged},
		{"no secret", golden, nil, before, acklink.ErrForged},
		{"an empty secret", golden, []string{""}, before, acklink.ErrForged},
		{"nothing", "", secrets, before, acklink.ErrForged},
		{"cut", golden[:len(golden)-4], secrets, before, acklink.ErrForged},
		{"longer", golden + "AAAA", secrets, before, acklink.ErrForged},
		{"no base64", golden[:10] + "%" + golden[11:], secrets, before, acklink.ErrForged},
		{"very long", strings.Repeat("A", 1<<20), secrets, before, acklink.ErrForged},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := acklink.Open(c.secrets, c.token, c.now); !errors.Is(err, c.want) {
				t.Fatal(err)
			}
		})
	}
	for i := range golden { // no letter can be another one
		b := []byte(golden)
		if b[i]++; b[i] == '[' || b[i] == '{' || b[i] == ':' {
			b[i] = 'A'
		}
		if _, err := acklink.Open(secrets, string(b), before); err == nil {
			t.Fatalf("changed at %d, and taken", i)
		}
	}
}

func TestNoURL(t *testing.T) {
	long := strings.Repeat("x", acklink.MaxDueID+1)
	for name, url := range map[string]string{
		"no public URL": acklink.URL("", secrets, link),
		"no secret":     acklink.URL("https://x", nil, link),
		"empty secret":  acklink.URL("https://x", []string{""}, link),
		"no id":         acklink.URL("https://x", secrets, acklink.Link{Expires: link.Expires}),
		"a long id":     acklink.URL("https://x", secrets, acklink.Link{DueID: long}),
	} {
		if url != "" {
			t.Errorf("%s: %s", name, url)
		}
	}
	longest := acklink.Link{DueID: strings.Repeat("x", acklink.MaxDueID), Expires: link.Expires}
	token := strings.TrimPrefix(acklink.URL("https://x", secrets, longest), "https://x/a/")
	if got, err := acklink.Open(secrets, token, before); err != nil || got != longest {
		t.Fatal(err)
	}
}

// Whatever opens is a token of ours, letter by letter.
func FuzzOpen(f *testing.F) {
	f.Add(golden)
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, token string) {
		if l, err := acklink.Open(secrets, token, before); err == nil && token != golden {
			t.Fatal(token, l)
		}
	})
}
