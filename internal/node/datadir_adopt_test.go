package node

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A directory of somebody else's, or with somebody else's files, is left as it is.
func TestForeignDataDirectory(t *testing.T) {
	self := os.Geteuid()
	fresh := func(files ...string) string {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, os.ModeSticky|0o777); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			put(t, filepath.Join(dir, f), "x\n", 0o600)
		}
		return dir
	}
	for _, c := range []struct {
		name string
		dir  string
		self int
		want string // in the refusal; "" for none
	}{
		{"empty", fresh(), self, ""},
		{"a start that was cut short", fresh("lock"), self, ""},
		{"a new file system", fresh("lost+found"), self, ""},
		{"ours", fresh("VERSION", "lock", "instance-id"), self, ""},
		{"somebody's files", fresh("thesis.tex"), self, "thesis.tex"},
		{"somebody's, and a lock", fresh("lock", "thesis.tex"), self, "thesis.tex"},
		{"a file", filepath.Join(fresh("file"), "file"), self, "no directory"},
		{"not there", filepath.Join(fresh(), "none"), self, "no such file"},
	} {
		err := mayAdopt(c.dir, c.self)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, dir := range []string{fresh(), fresh("VERSION")} {
		if err := os.Chown(dir, 4242, -1); err != nil {
			t.Logf("not run as root, so of owners only our own is tried: %v", err)
			dir = ""
		}
		if dir == "" {
			break
		}
		if err := mayAdopt(dir, self); err == nil || !strings.Contains(err.Error(), "belongs to user 4242") {
			t.Errorf("foreign owner: %v", err)
		}
		if err := mayAdopt(dir, 4242); err != nil {
			t.Errorf("the owner itself: %v", err)
		}
	}
	if self == 0 { // a volume of root's, for a process that is not root
		if err := mayAdopt(fresh(), 65532); err != nil {
			t.Errorf("root's: %v", err)
		}
	}
	dir := fresh("thesis.tex")
	if d, err := openDataDir(dir); err == nil {
		d.close()
		t.Error("opened")
	}
	about, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if about.Mode().Perm() != 0o777 || about.Sys().(*syscall.Stat_t).Uid != uint32(self) {
		t.Errorf("changed: %v", about.Mode())
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err == nil {
		t.Error("something was left in it")
	}
}
