package peer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// A peer that breaks off in the middle must not look like a short list.
func TestBrokenPage(t *testing.T) {
	page := Page{
		Items:   []Found{{UserCursor{5, "a"}, &trigger.State{Key: "a", Status: trigger.Pending, Revision: 3}}},
		Through: UserCursor{5, "a"}, More: true, Visited: 7, Spent: 9,
	}
	var b strings.Builder
	if err := writePage(&b, &page); err != nil {
		t.Fatal(err)
	}
	for n := range b.Len() - 2 { // without the last two bytes it is of an instance that does not say what it cost
		if _, err := readPage(strings.NewReader(b.String()[:n]), nil); err == nil {
			t.Errorf("%d of %d bytes read as a page", n, b.Len())
		}
	}
	got, err := readPage(strings.NewReader(b.String()), nil)
	if err != nil || len(got.Items) != 1 || got.Items[0].State.Revision != 3 || got.Items[0].At != page.Items[0].At ||
		got.Through != page.Through || !got.More || got.Visited != 7 || got.Spent != 9 {
		t.Errorf("read %+v, %v", got, err)
	}
}

// A peer's answer is bytes from outside too.
func FuzzReadPage(f *testing.F) {
	var b bytes.Buffer
	_ = writePage(&b, &Page{
		Items: []Found{{UserCursor{5, "a"}, &trigger.State{Key: "a", Status: trigger.Pending}}},
		More:  true,
	})
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		page, err := readPage(bytes.NewReader(b), nil)
		if err == nil {
			var spelled bytes.Buffer
			if err := writePage(&spelled, &page); err != nil {
				t.Fatalf("a page that was read cannot be written: %v", err)
			}
		}
	})
}
