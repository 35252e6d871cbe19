package console_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// The worker of a channel is stopped, and due events wait: Now says so, and not that all is well. What gets fewer is no
// fault, and neither is a little.
func TestBacklogOfAChannel(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.do(chromedp.Evaluate(`(() => {
		const real = window.fetch;
		let read = 0;
		window.fetch = (url, ...more) => {
			if (!String(url).includes('/v1/channels')) return real(url, ...more);
			const channel = (name, waiting) => ({name, topic: name, partitions: 4, removable: false, waiting});
			return Promise.resolve(new Response(JSON.stringify({items: [channel('push', 500000),
				channel('mail', 90000 - 1000 * read++), channel('sms', 1000)]})));
		};
	})()`, nil))
	b.click("Now")
	b.await(".figures", "due events not read yet")
	b.await("#health", "whether they get fewer is known within half a minute")
	time.Sleep(10 * time.Second) // the third reading comes after 20 s
	b.await("#health", "1 thing is not well.")
	b.await("main ul", "Channel push: 500,000 due events wait, and they do not get fewer.")
	b.click("What to do")
	b.await("h2", "WaterclockNobodyAnswers")
}

// A due topic refuses records: the triggers of its channel are put off, which no partition calls overdue. Now says so,
// once a second reading has it, too: a topic that is just being made refuses for a moment.
func TestDueTopicRefuses(t *testing.T) {
	s := dev(t)
	b := s.open(t, 1200, 900)
	b.visit("triggers")
	b.stub("GET", "/v1/channels", 200, `{"items":[{"name":"push","topic":"p","partitions":4,"put_off":[0,2]}]}`)
	b.click("Now")
	b.await("#health", "The due topic of channel push has refused records")
	b.await("#health", "1 thing is not well.")
	b.await("main ul", "Channel push: its due topic has refused records, so its due events wait.")
	b.click("What to do")
	b.await("h2", "A due topic refuses")
	b.click("Deliveries")
	b.await("main", "Some on push, whose due topic has refused records.")
}
