package node

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// openAs is the environment variable that makes a child process of this test open a directory.
// podUser is the user id of that process.
const (
	openAs  = "WATERCLOCK_TEST_OPEN_DIR"
	podUser = 65532
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(openAs); dir != "" {
		d, err := openDataDir(dir)
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(3)
		}
		err = os.WriteFile(filepath.Join(dir, storeDir, "000001.sst"), []byte("secret"), 0o644)
		d.close()
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(4)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// openedBy opens a directory in a process of another user and group. It returns the reason if
// that was refused.
func openedBy(t *testing.T, dir string, uid, gid uint32) (refusal string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(shared(t), "node.test") // other users may not be able to reach our binary
	raw, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(binary, raw, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Dir, cmd.Env = "/", []string{openAs + "=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if err == nil {
		return ""
	}
	return string(out)
}

// shared creates a directory that every user can reach.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "waterclock-datadir-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func volume(t *testing.T, uid, gid int, mode fs.FileMode) string {
	t.Helper()
	dir := filepath.Join(shared(t), "data")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, uid, gid), os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A volume that Kubernetes mounts with an fsGroup belongs to root. The process may write to it
// only through its group.
func TestVolumeOfRoot(t *testing.T) {
	needRoot(t)
	dir := volume(t, 0, podUser, 0o2775|fs.ModeSetgid)
	for range 2 { // when new, and as the first process left it
		if why := openedBy(t, dir, podUser, podUser); why != "" {
			t.Fatalf("a volume of root's is refused: %s", why)
		}
	}
	if mode := stat(t, dir).Mode(); mode.Perm() != 0o775 || mode&fs.ModeSetgid == 0 {
		t.Errorf("the volume's mode became %v", mode)
	}
	for name, most := range map[string]fs.FileMode{lockFile: 0o600, versionFile: 0o600, storeDir: 0o700} {
		if mode := stat(t, filepath.Join(dir, name)).Mode().Perm(); mode&^most != 0 {
			t.Errorf("%s has mode %o: others can read it", name, mode)
		}
	}
}

// A directory that another user owns, may write to, or has filled is refused, with advice.
func TestDirectoryOfOthers(t *testing.T) {
	needRoot(t)
	for _, row := range []struct {
		name     string
		uid, gid int
		mode     fs.FileMode
		holds    string
		as       uint32
		want     string
	}{
		{"another user's", 4711, podUser, 0o770, "", podUser, "belongs to user 4711"},
		{"another user's, for root", 4711, 0, 0o700, "", 0, "belongs to user 4711"},
		{"open to all", 0, 0, 0o777, "", podUser, "/data/waterclock"},
		{"open to all, sticky", 0, 0, 0o777 | fs.ModeSticky, "", podUser, "every user may write"},
		{"full of other things", 0, 0, 0o777 | fs.ModeSticky, "holiday.jpg", 0, "it holds holiday.jpg"},
		{"used by all, empty, for root", 0, 0, 0o777 | fs.ModeSticky, "", 0, "every user may write"},
		{"with a VERSION of others", podUser, podUser, 0o755, versionFile, podUser, "cannot read the data directory"},
		{"half a copy", podUser, podUser, 0o700, brokerDir, podUser, "it holds broker"},
		{"not writable", 0, 0, 0o755, "", podUser, "Make it writable"},
		{"a new volume", podUser, podUser, 0o755, "lost+found", podUser, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := volume(t, row.uid, row.gid, row.mode)
			if row.holds != "" {
				if err := os.Mkdir(filepath.Join(dir, row.holds), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			before := stat(t, dir).Mode()
			got := openedBy(t, dir, row.as, row.as)
			if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if after := stat(t, dir).Mode(); got != "" && after != before {
				t.Errorf("a directory that was refused went from mode %v to %v", before, after)
			}
		})
	}
}

// Our own directory becomes private, including what older versions created in it.
func TestOwnDirectoryBecomesPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, versionFile),
		[]byte(LayoutVersion+"\n"), 0o600), os.Mkdir(filepath.Join(dir, storeDir), 0o755)); err != nil {
		t.Fatal(err)
	}
	d, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, path := range []string{dir, filepath.Join(dir, storeDir)} {
		if mode := stat(t, path).Mode().Perm(); mode != 0o700 {
			t.Errorf("%s has mode %o", path, mode)
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a process of another user is started")
	}
}

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
