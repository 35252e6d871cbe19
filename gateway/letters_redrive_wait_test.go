package gateway

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// Whatever a redrive waits for, it says how far it is at least each second: clients take for lost what is silent for a
// minute. The first line counts too.
func TestRedriveIsNeverSilent(t *testing.T) {
	const hold, most = 4 * time.Second, 2500 * time.Millisecond
	for name, c := range map[string]struct {
		letters int
		body    string
		change  func(*Options)
		during  func(*letterWorld)
	}{
		"its rate":          {2, `{"all":true,"rate":0.25}`, nil, nil},
		"its rate, by name": {2, `{"trigger_id":"k0","rate":0.25}`, nil, nil},
		"the tenant's rate": {3, `{"all":true}`, func(o *Options) {
			o.Rate = func(string) float64 { return 0.25 }
		}, nil},
		"the engine": {1, `{"all":true}`, nil, func(w *letterWorld) {
			w.engine.freeze()
			time.AfterFunc(hold, w.engine.thaw)
		}},
		"room": {
			5, `{"all":true,"rate":1000}`, func(o *Options) { o.CommandsBeside, o.CommandsAlone = 1, 1 },
			func(w *letterWorld) {
				w.engine.freeze()
				time.AfterFunc(hold, w.engine.thaw)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLetterWorld(t, func(o *Options) {
				o.Auth, o.AnswerWithin = testKeys(t), time.Minute
				if c.change != nil {
					c.change(o)
				}
			})
			if strings.Contains(c.body, "trigger_id") {
				w.deadOfOne(trigger.NewKey("acme", "k0"), c.letters)
			} else {
				for i := range c.letters {
					w.dead(trigger.NewKey("acme", fmt.Sprintf("k%d", i)), "http_500")
				}
			}
			w.ids("", "Authorization", "Bearer "+keyA)
			if c.during != nil {
				c.during(w)
			}
			silent, text := w.silence(c.body, "Authorization", "Bearer "+keyA)
			if silent > most {
				t.Errorf("silent for %v: %s", silent, text)
			}
			if want := fmt.Sprintf(`"redriven":%d`, c.letters); !strings.Contains(text, want) ||
				!strings.Contains(text, `"done":true`) {
				t.Errorf("it said %s", text)
			}
		})
	}
}

// silence posts a redrive and returns the longest time between two lines, that before the first one included.
func (w *letterWorld) silence(body string, header ...string) (longest time.Duration, text string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/v1/dead-letters:redrive",
		strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	last := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		longest, last = max(longest, time.Since(last)), time.Now()
		text += lines.Text() + "\n"
	}
	return longest, text
}

// The refusal of an only letter is the answer's status as long as nothing was said. So it says nothing while the letter
// is read and decided, and speaks only if a rate makes it wait for long.
func TestRedriveOfOneLetterSpeaksLater(t *testing.T) {
	one := &redrive{alone: true, asked: time.Now()}
	if d := one.untilReport(); d < aloneReport-time.Second {
		t.Errorf("a redrive of one letter speaks after %v", d)
	}
	one.alone = false
	if d := one.untilReport(); d > redriveReport {
		t.Errorf("others speak after %v", d)
	}
	o := Options{}.withDefaults()
	if most := o.ReadWithin + o.ProduceWithin + 2*o.AnswerWithin; aloneReport <= most {
		t.Errorf("to read a letter, to write and to ask what was decided may take %v", most)
	}
}
