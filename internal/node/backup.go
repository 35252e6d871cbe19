package node

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/sinks/embedded"
)

// A backup of `dev` is a copy of its directory at one moment. The broker's files are exact. The
// history and the preferences are a little older. The partitions' stores are left out: they are a
// cache, and a start restores them from topic state.
//
// Everyone who may read the data directory may take a backup: the running process answers on a
// socket in it. The last entry of the archive is VERSION. A directory without that file is an
// incomplete copy, and no start accepts it.

const (
	controlFile = "control.sock"
	stagingDir  = "backup.tmp" // hard links to files that are being sent
	backupPath  = "/backup"

	// sendWithin bounds one write of the archive. A reader that stops must not keep deleted
	// files on the disk.
	sendWithin = time.Minute
)

// backups answers requests on the control socket.
type backups struct {
	dir     string
	broker  *broker.Broker
	history *embedded.Store
	prefs   checkpointer
	log     *slog.Logger
	one     sync.Mutex // there is one staging directory
}

// startControl listens for `waterclock backup`. Without the socket, dev still runs, and
// logs that it cannot be backed up.
func (n *node) startControl(life *roles, b *broker.Broker) {
	path, release, err := socketPath(n.cfg.DataDir)
	if err == nil {
		err = errors.Join(removeIf(path), os.RemoveAll(filepath.Join(n.cfg.DataDir, stagingDir)))
	}
	var ln net.Listener
	if err == nil {
		ln, err = net.Listen("unix", path)
	}
	if err != nil {
		release()
		n.log.Warn("`waterclock backup` does not work while this process runs: its socket cannot be opened",
			"error", err)
		return
	}
	store, _ := n.history.(*embedded.Store)
	bs := &backups{dir: n.cfg.DataDir, broker: b, history: store, prefs: copyOf(n.preferences), log: n.log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+backupPath, bs.serve)
	life.start("control", func(ctx context.Context) error {
		defer release()
		return serveHTTP(ctx, ln, mux, n.log)
	})
}

// socketPath returns a path of the socket for the kernel, which accepts about 100 bytes.
// release must be called when the path is no longer needed.
func socketPath(dir string) (path string, release func(), err error) {
	path = filepath.Join(dir, controlFile)
	if len(path) < 100 {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", func() {}, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), controlFile), func() { d.Close() }, nil
}

func removeIf(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (bs *backups) serve(w http.ResponseWriter, r *http.Request) {
	if !bs.one.TryLock() {
		http.Error(w, "another backup is running; wait until it ends", http.StatusConflict)
		return
	}
	defer bs.one.Unlock()
	staging := filepath.Join(bs.dir, stagingDir)
	defer os.RemoveAll(staging)
	begun := time.Now()
	files, err := bs.stage(r.Context(), staging)
	if err != nil {
		bs.log.Error("a backup failed", "error", err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	bs.log.Info("a backup was taken and is being sent", "files", len(files), "took", time.Since(begun))
	out := slowly{w, http.NewResponseController(w)}
	if err := send(r.Context(), out, staging, files); err != nil {
		bs.log.Error("a backup was not sent completely", "error", err)
		panic(http.ErrAbortHandler) // the archive and the connection end without VERSION
	}
}

// stage makes the copy. The history comes first: it may be behind the events, but never
// ahead of them.
func (bs *backups) stage(ctx context.Context, staging string) ([]broker.FrozenFile, error) {
	if err := errors.Join(os.RemoveAll(staging), os.MkdirAll(filepath.Join(staging, brokerDir), 0o700)); err != nil {
		return nil, err
	}
	if bs.history != nil {
		if err := bs.history.Checkpoint(filepath.Join(staging, historyDir)); err != nil {
			return nil, err
		}
	}
	if bs.prefs != nil {
		if err := bs.prefs.Checkpoint(filepath.Join(staging, preferencesDir)); err != nil {
			return nil, fmt.Errorf("copy preferences: %w", err)
		}
	}
	frozen, err := bs.broker.Freeze(ctx, filepath.Join(staging, brokerDir))
	if err != nil {
		return nil, err
	}
	if err := copySmall(bs.dir, staging); err != nil {
		return nil, err
	}
	return listFiles(staging, frozen)
}

// copySmall copies the files at the top of the data directory: secrets and identities that the
// process created.
func copySmall(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || e.Name() == lockFile || e.Name() == versionFile {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// listFiles lists all staged files. The frozen files of the broker have the sizes of that
// moment; the other files have their present size.
func listFiles(staging string, frozen []broker.FrozenFile) ([]broker.FrozenFile, error) {
	files := make([]broker.FrozenFile, 0, len(frozen)+16)
	for _, f := range frozen {
		files = append(files, broker.FrozenFile{Path: filepath.Join(brokerDir, f.Path), Size: f.Size})
	}
	staged, err := filesUnder(staging, func(name string, d fs.DirEntry) bool { return d.IsDir() && name == brokerDir })
	return append(files, staged...), err
}

// filesUnder lists the regular files under root, with their present size, but for what leaveOut names: a
// file, or a directory with all in it.
func filesUnder(root string, leaveOut func(name string, d fs.DirEntry) bool) (files []broker.FrozenFile, err error) {
	if root, err = filepath.EvalSymlinks(root); err != nil { // WalkDir does not follow its root
		return nil, err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch out := leaveOut(name, d); {
		case out && d.IsDir():
			return fs.SkipDir
		case out || !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err == nil {
			files = append(files, broker.FrozenFile{Path: name, Size: info.Size()})
		}
		return err
	})
	return files, err
}

// send writes the archive, VERSION last.
func send(ctx context.Context, w io.Writer, root string, files []broker.FrozenFile) error {
	out := tar.NewWriter(w)
	for _, f := range files {
		if err := errors.Join(ctx.Err(), sendFile(out, root, f)); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	version := []byte(LayoutVersion + "\n")
	head := &tar.Header{Name: versionFile, Mode: 0o600, Size: int64(len(version)), ModTime: time.Now()}
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	_, err := out.Write(version)
	return errors.Join(err, out.Close())
}

// sendFile fails if the file has become shorter.
func sendFile(out *tar.Writer, root string, f broker.FrozenFile) error {
	in, err := os.Open(filepath.Join(root, f.Path))
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	head := &tar.Header{Name: filepath.ToSlash(f.Path), Mode: 0o600, Size: f.Size, ModTime: info.ModTime()}
	if err := out.WriteHeader(head); err != nil {
		return err
	}
	_, err = io.CopyN(out, in, f.Size)
	return err
}

// slowly sets a write deadline before each write.
type slowly struct {
	io.Writer
	c *http.ResponseController
}

func (s slowly) Write(p []byte) (int, error) {
	_ = s.c.SetWriteDeadline(time.Now().Add(sendWithin))
	return s.Writer.Write(p)
}

// BackupReport describes a backup.
type BackupReport struct {
	Dir      string        `json:"dir"`
	TakenAt  time.Time     `json:"taken_at"` // the backup holds everything acknowledged before this time
	Files    int           `json:"files"`
	Bytes    int64         `json:"bytes"`
	Took     time.Duration `json:"-"`
	Verified bool          `json:"verified"`
}

// Backup copies the data directory of `dev` into the directory to, which must be empty or
// new. It works on a running `dev` and on a stopped one. It opens the copy to check that it
// is complete.
func Backup(ctx context.Context, c *config.Config, to string, log *slog.Logger) (BackupReport, error) {
	report := BackupReport{Dir: to, TakenAt: time.Now().UTC().Truncate(time.Millisecond)}
	if err := mayBackUp(c.DataDir, to); err != nil {
		return report, err
	}
	archive, err := openArchive(ctx, c.DataDir)
	if err != nil {
		return report, err
	}
	err = receive(archive, to, &report)
	if err := errors.Join(err, archive.Close()); err != nil {
		return report, fmt.Errorf("the copy in %s is incomplete, delete it: %w", to, err)
	}
	// What a start repairs in a copy of a running dev is no news: the copy looks like one after a crash.
	if err := verifyBackup(ctx, c, to, quiet(log)); err != nil {
		return report, fmt.Errorf("the copy in %s cannot be opened, keep an older one: %w", to, err)
	}
	report.Verified, report.Took = true, time.Since(report.TakenAt)
	// From here on, a start accepts the copy.
	if err := os.WriteFile(filepath.Join(to, versionFile), []byte(LayoutVersion+"\n"), 0o600); err != nil {
		return report, err
	}
	return report, syncTree(to)
}

// mayBackUp creates the target directory. It refuses a directory that is not empty, and a data
// directory that does not belong to dev.
func mayBackUp(from, to string) error {
	if _, err := os.Stat(filepath.Join(from, brokerDir)); err != nil {
		return fmt.Errorf("%s is not a data directory of `waterclock dev`: name its directory with --data-dir. "+
			"What to back up on a cluster: docs/operations/backup.md", from)
	}
	if inside(from, to) {
		return fmt.Errorf("cannot back up into %s: it is inside the data directory %s, and would be lost with it; "+
			"name a directory elsewhere", to, from)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("cannot make %s: %w", to, cause(err))
	}
	entries, err := os.ReadDir(to)
	if err == nil && len(entries) > 0 {
		err = errors.New("it is not empty; name a new directory")
	}
	if err != nil {
		return fmt.Errorf("cannot back up into %s: %w", to, cause(err))
	}
	return nil
}

// inside reports whether a path is in a directory, or is it. Links are followed; the end of the
// path need not exist.
func inside(dir, path string) bool {
	at, err := filepath.EvalSymlinks(path)
	if up := filepath.Dir(path); err != nil && up != path {
		return inside(dir, up) // what is not there yet is where its parent is
	}
	for err == nil {
		here, err1 := os.Stat(at)
		there, err2 := os.Stat(dir)
		if err1 != nil || err2 != nil || os.SameFile(here, there) {
			return err1 == nil && err2 == nil
		}
		if at, err = filepath.Abs(at); err != nil || filepath.Dir(at) == at {
			return false
		}
		at = filepath.Dir(at)
	}
	return false
}

// openArchive asks the process that runs on the directory. If none runs, it reads the
// directory itself.
func openArchive(ctx context.Context, dir string) (io.ReadCloser, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the data directory %s: %w. Run this as the user that waterclock runs as",
			dir, cause(err))
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return archiveOfStopped(ctx, dir, lock), nil
	}
	lock.Close()
	return askForArchive(ctx, dir)
}

func askForArchive(ctx context.Context, dir string) (io.ReadCloser, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error,
	) {
		path, release, err := socketPath(dir)
		if err != nil {
			return nil, err
		}
		defer release()
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://waterclock"+backupPath, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the waterclock that runs on %s does not answer on its %s: %w. Wait until it is "+
			"ready; `serve` has nothing to back up", dir, controlFile, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, fmt.Errorf("waterclock refused the backup: %s", strings.TrimSpace(string(text)))
	}
	return resp.Body, nil
}

// archiveOfStopped reads a directory that no process writes to. The journal is part of it:
// after a power cut it holds what the other files lack.
func archiveOfStopped(ctx context.Context, dir string, lock *os.File) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		defer lock.Close()
		files, err := filesOfStopped(dir)
		if err == nil {
			err = send(ctx, w, dir, files)
		}
		w.CloseWithError(err)
	}()
	return r
}

func filesOfStopped(dir string) ([]broker.FrozenFile, error) {
	return filesUnder(dir, func(name string, d fs.DirEntry) bool {
		if d.IsDir() {
			return name == storeDir || name == stagingDir
		}
		return name == lockFile || name == versionFile
	})
}

// receive unpacks an archive. The archive must end with VERSION, which receive does not
// write.
func receive(archive io.Reader, to string, report *BackupReport) error {
	in := tar.NewReader(archive)
	for {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if head.Name == versionFile {
			return nil
		}
		if !filepath.IsLocal(head.Name) {
			return fmt.Errorf("%q is not a path below the directory", head.Name)
		}
		if err := receiveFile(in, filepath.Join(to, filepath.FromSlash(head.Name)), head); err != nil {
			return err
		}
		report.Files, report.Bytes = report.Files+1, report.Bytes+head.Size
	}
}

func receiveFile(in io.Reader, path string, head *tar.Header) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, head.Size)
	return errors.Join(err, out.Sync(), out.Close(), os.Chtimes(path, head.ModTime, head.ModTime))
}

// verifyBackup starts a broker on the copy, which checks every batch, and opens the
// history and the preferences.
func verifyBackup(ctx context.Context, c *config.Config, to string, log *slog.Logger) error {
	if _, err := os.Stat(filepath.Join(to, brokerDir)); err != nil {
		return fmt.Errorf("nothing of the broker was copied: %w", err) // a broker that starts would make it
	}
	b, err := broker.Start(ctx, broker.Options{
		Dir: filepath.Join(to, brokerDir), Listen: "127.0.0.1:0", Sync: true, Logger: log,
	})
	if err != nil {
		return err
	}
	if err := b.Close(); err != nil {
		return err
	}
	if err := verifyPreferences(filepath.Join(to, preferencesDir), log); err != nil {
		return err
	}
	history := filepath.Join(to, historyDir)
	if _, err := os.Stat(history); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	o := EmbeddedOptions(c, history)
	o.Logger = log
	h, err := embedded.Open(o)
	if err != nil {
		return err
	}
	if aside, _ := filepath.Glob(history + ".corrupt-*"); len(aside) > 0 {
		return errors.Join(errors.New("the history is damaged"), h.Close())
	}
	return h.Close()
}

// syncTree makes the names of all files durable. Their contents are durable already.
func syncTree(root string) error {
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return err
	}
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
