package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A channel whose due topic has refused records says so to operators, and which partitions have put something off.
// Other reasons why a watermark falls behind are of no channel, and without the topic nothing is said.
func TestChannelsSayWhatIsPutOff(t *testing.T) {
	now := &clock{at: time.Now()}
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Channels, o.Now = testKeys(t), map[string]string{"push": "mobile", "mail": "letters"}, now.read
	})
	channels := func(key string) (of map[string]string) {
		t.Helper()
		now.add(sharedAge)
		of = map[string]string{}
		list := w.must(http.StatusOK, "GET", "/v1/channels", "", "Authorization", "Bearer "+key).body
		for _, part := range strings.Split(list, `{"name":"`)[1:] {
			name, rest, _ := strings.Cut(part, `"`)
			_, of[name], _ = strings.Cut(rest, `"put_off":`)
			of[name], _, _ = strings.Cut(of[name], "}")
		}
		return of
	}
	if got := channels(keyO); got["push"] != "" || got["mail"] != "" {
		t.Errorf("without watermarks: %q", got)
	}
	m := w.marks()
	m.makeTopic()
	at := trigger.At(time.Now())
	m.say(0, at, topics.HeldLag, topics.HighLane("mobile"))
	m.say(1, at, "mobile", "letters") // of the latter no offset is known
	m.seesTheTopic()
	if got := channels(keyO); got["push"] != "[0,1]" || got["mail"] != "" {
		t.Errorf("two partitions have put something off: %q", got)
	}
	if got := channels(keyR); got["push"] != "" {
		t.Errorf("who is no operator is told %q", got)
	}
	m.say(0, at+1)
	m.say(1, at+1, topics.HeldBarrier)
	if got := channels(keyO); got["push"] != "" {
		t.Errorf("the topic is well again: %q", got)
	}
}
