package prefix_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/prefix"
)

func FuzzPrefix(f *testing.F) {
	f.Add("", "", 0)
	f.Add("reminder-1", "reminder-2", 100)
	f.Add("reminder", "reminder\x00", 4)
	f.Fuzz(func(t *testing.T, a, b string, most int) {
		most = max(most, 0)
		n := prefix.Common(a, b, most)
		if n > most || n > min(len(a), len(b)) || a[:n] != b[:n] || n < min(most, len(a), len(b)) && a[n] == b[n] {
			t.Errorf("Common(%q, %q, %d) = %d", a, b, most, n)
		}
		if bytes := prefix.Common([]byte(a), []byte(b), most); bytes != n {
			t.Errorf("of bytes %d, of strings %d", bytes, n)
		}
		if c := cmp.Compare(prefix.Order(a), prefix.Order([]byte(b))); c != 0 && c != strings.Compare(a, b) {
			t.Errorf("%q and %q are ordered %d", a, b, c)
		}
	})
}
