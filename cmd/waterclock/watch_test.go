package main

import (
	"strings"
	"sync"
	"testing"
)

// Watch ends with its trigger: when it is erased, when the API fails once in between, and not
// before a slow history has sent its first event.
func TestWatchEndsWithItsTrigger(t *testing.T) {
	f := newFakeAPI(t)
	cli(t, nil, "", "--url", f.URL, "watch", "belated").want(t, exitOK, "occurrence.fired", "belated is FIRED")
	cli(t, nil, "", "--url", f.URL, "watch", "unsteady").want(t, exitOK, "occurrence.fired", "unsteady is FIRED")
	if n := f.asks.Load(); n != 3 {
		t.Errorf("it asked %d times for the trigger, want once before, once in vain, and once more", n)
	}

	_, url := startDev(t)
	api := func(args ...string) result { return cli(t, nil, "", append(args, "--url", url)...) }
	api("schedule", "w", "--in", "1h").want(t, exitOK)
	var out saidThen
	var notes strings.Builder
	follows := make(chan struct{})
	out.do = sync.OnceFunc(func() { close(follows) })
	ended := make(chan int)
	go func() {
		ended <- run(t.Context(), []string{"watch", "w", "--url", url},
			stdio{in: strings.NewReader(""), out: &out, err: &notes})
	}()
	<-follows
	api("erase", "w").want(t, exitOK)
	result{<-ended, out.text, notes.String()}.want(t, exitOK, "trigger.erased", "w is ERASED and has ended")
}
