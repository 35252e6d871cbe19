package gateway

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/trigger"
)

// example is one curl command of docs/api.md and what it claims to answer.
type example struct {
	command string
	claims  []string // the first begins with the status
}

func examples(t *testing.T) (list []example) {
	page, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		for _, line := range strings.Split(strings.TrimSpace(block[1]), "\n") {
			claim, isClaim := strings.CutPrefix(line, "# ")
			switch {
			case strings.HasPrefix(line, "curl "):
				list = append(list, example{command: line})
			case isClaim:
				list[len(list)-1].claims = append(list[len(list)-1].claims, claim)
			default:
				list[len(list)-1].command += "\n" + line
			}
		}
	}
	return list
}

// words splits a command as a shell does, as far as the page goes: words, and
// single quotes.
func words(command string) (list []string, err error) {
	word, inWord, quoted := "", false, false
	for _, r := range command {
		switch {
		case r == '\'':
			quoted, inWord = !quoted, true
		case r == ' ' && !quoted:
			if inWord {
				list = append(list, word)
			}
			word, inWord = "", false
		default:
			word, inWord = word+string(r), true
		}
	}
	if quoted {
		return nil, errors.New("a quote is open")
	}
	return append(list, word), nil
}

func (w *world) curl(command string) (answer, error) {
	list, err := words(command)
	if err != nil {
		return answer{}, err
	}
	method, path, body := "", "", ""
	var headers []string
	for i := 1; i < len(list); i++ {
		switch list[i] {
		case "-X":
			i++
			method = list[i]
		case "-d", "--data-binary":
			i++
			body = list[i]
			if method == "" {
				method = "POST"
			}
		case "-H":
			i++
			name, value, _ := strings.Cut(list[i], ": ")
			headers = append(headers, name, value)
		default:
			var ok bool
			if path, ok = strings.CutPrefix(list[i], "http://127.0.0.1:8080"); !ok {
				return answer{}, errors.New("what is " + list[i])
			}
		}
	}
	if method == "" {
		method = "GET"
	}
	return w.call(method, path, body, headers...), nil
}

// The page's examples, in order, against a fresh server.
func TestExamplesOfThePage(t *testing.T) {
	policy, err := egress.NewPolicy(egress.Settings{Loopback: true}) // as dev has it
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(o *Options) {
		calls := egress.NewTransport(egress.Options{Policy: policy})
		o.TestEndpoint = func(ctx context.Context, tenant, url string, _ bool) *egress.Report {
			return calls.Probe(ctx, tenant, url, nil)
		}
	})
	m := w.marks() // the world's engine writes none
	m.makeTopic()
	for p := range int32(testPartitions) {
		m.say(p, trigger.At(time.Now()))
	}
	list := examples(t)
	if len(list) < 25 {
		t.Fatalf("only %d examples found", len(list))
	}
	for _, e := range list {
		a, err := w.curl(e.command)
		if err != nil || len(e.claims) == 0 {
			t.Fatalf("%s: %v, %d claims", e.command, err, len(e.claims))
		}
		status, first, _ := strings.Cut(e.claims[0], " ")
		if got := strings.Fields(status)[0]; got != strconv.Itoa(a.status) {
			t.Errorf("%s\nanswers %d, the page says %s: %s", e.command, a.status, got, a.body)
		}
		for _, claim := range append([]string{first}, e.claims[1:]...) {
			for _, part := range strings.Split(claim, "…") {
				if !strings.Contains(a.body, part) {
					t.Errorf("%s\nanswers %s\nthe page says %s", e.command, a.body, claim)
				}
			}
		}
	}
}
