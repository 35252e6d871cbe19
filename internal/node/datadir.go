package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// LayoutVersion is the layout of the data directory; a directory with another one is
// refused.
const LayoutVersion = "waterclock data 1"

// Names in the data directory. Their contents are private to this user, whatever the mode
// of the directory.
const (
	lockFile    = "lock"
	versionFile = "VERSION"
	idFile      = "instance-id"
	brokerDir   = "broker"
	historyDir  = "history"
	storeDir    = "store"

	preferencesDir = "preferences"
)

// dataDir is a locked data directory.
type dataDir struct{ lock *os.File }

// openDataDir checks who owns the directory and who wrote it, and locks out every other
// process. A directory of this user becomes private. A directory of root keeps its mode: a
// Kubernetes volume is ours only through its group, and only its owner may change it. Its
// contents are private either way.
func openDataDir(dir string) (*dataDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	if err := checkDataDir(dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot write to the data directory %s: %w. Make it writable for this user, "+
			"or choose another with --data-dir", dir, cause(err))
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another waterclock runs on %s. Stop it, or choose another directory with --data-dir",
			dir)
	}
	if err := errors.Join(checkLayout(dir), makePrivate(dir)); err != nil {
		lock.Close()
		return nil, err
	}
	return &dataDir{lock}, nil
}

func (d *dataDir) close() { d.lock.Close() }

// checkDataDir refuses a directory that belongs to another user, that everybody may write
// to, or that holds other things.
func checkDataDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("cannot read the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	if err := checkForeign(dir); err != nil {
		return err
	}
	own, err := MayKeep(dir, info, os.Geteuid())
	if own && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700)
	}
	return err
}

// MayKeep decides whether the user may keep data in the directory. own is true if the directory
// belongs to the user: it becomes private. A user may also use a directory of root that not everybody may write to.
// Directories that everybody uses, such as /var/tmp, belong to root, too. They have the sticky bit, and root does not
// own them in this sense. The error says why the user must not use the directory.
func MayKeep(dir string, info fs.FileInfo, uid int) (own bool, err error) {
	s, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false, nil
	case int(s.Uid) == uid && (uid != 0 || info.Mode()&fs.ModeSticky == 0):
		return true, nil
	case s.Uid != 0:
		return false, fmt.Errorf("the data directory %s belongs to user %d, and this process runs as %d. Run it as "+
			"that user, chown the directory, or choose another with --data-dir", dir, s.Uid, uid)
	case info.Mode().Perm()&0o002 != 0:
		return false, fmt.Errorf("every user may write to %s (mode %o), so others could replace its content. Name a "+
			"directory in it, which becomes private: --data-dir %s", dir, info.Mode().Perm(),
			filepath.Join(dir, "waterclock"))
	}
	return false, nil
}

// checkForeign refuses a directory that holds something that Waterclock did not write. Our
// lock, a rebuilt history, and a volume's lost+found do not count.
func checkForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot read the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	other := ""
	for _, e := range entries {
		switch e.Name() {
		case versionFile:
			return checkVersion(dir)
		case lockFile, historyDir, "history-rebuild", "lost+found":
		default:
			other = e.Name()
		}
	}
	if other == "" {
		return nil
	}
	return fmt.Errorf("%s is not empty (it holds %s) and has no file %s, so it is not a data directory, or an "+
		"incomplete backup. Choose an empty or new directory with --data-dir", dir, other, versionFile)
}

// makePrivate makes the subdirectories private before any file is written to them, because the
// files themselves are readable for all.
func makePrivate(dir string) error {
	for _, name := range []string{brokerDir, historyDir, preferencesDir, storeDir} {
		path := filepath.Join(dir, name)
		err := privateDir(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			if name == storeDir { // the code that opens the others makes them private
				err = os.Mkdir(path, 0o700)
			}
		}
		if err != nil {
			return fmt.Errorf("%s in the data directory does not belong to this user: %w. Run waterclock as the "+
				"user that wrote it, "+
				"or choose another with --data-dir", path, cause(err))
		}
	}
	return nil
}

func privateDir(path string) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is not a directory")
	case info.Mode().Perm()&0o077 == 0:
		return nil
	}
	return os.Chmod(path, 0o700)
}

// checkLayout writes the version into a new directory, and compares it in an old one.
func checkLayout(dir string) error {
	err := checkVersion(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(filepath.Join(dir, versionFile), []byte(LayoutVersion+"\n"), 0o600)
	}
	return err
}

// checkVersion compares the version in a directory. It returns fs.ErrNotExist if there is none.
func checkVersion(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, versionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fs.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("cannot read the data directory %s: %w. Choose another with --data-dir", dir, cause(err))
	}
	if got := strings.TrimSpace(string(b)); got != LayoutVersion {
		return fmt.Errorf("the data directory %s was written by another version (%q, this one writes %q). "+
			"Run that version, or choose another directory with --data-dir", dir, got, LayoutVersion)
	}
	return nil
}

// cause returns an error without its path, because the message around it names the path.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// instanceID is the group.instance.id, which makes a member static. A process with the same data
// directory is the same member, so a quick restart moves no partitions. The id is created once.
func (n *node) instanceID() string {
	file := filepath.Join(n.cfg.DataDir, idFile)
	if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
		return string(b)
	}
	host, _ := os.Hostname()
	id := fmt.Sprintf("%s-%s", host, NewID())
	if err := os.WriteFile(file, []byte(id), 0o600); err != nil {
		n.log.Warn("no static membership: the instance id cannot be stored", "error", err)
		return ""
	}
	return id
}

// NewID returns 8 random bytes in hex.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
