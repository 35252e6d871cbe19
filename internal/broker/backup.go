package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FrozenFile is one file of a copy, and how much of it belongs to that copy.
type FrozenFile struct {
	Path string // relative to the directory of the copy, and to Options.Dir
	Size int64
}

// freezing is a copy that somebody waits for.
type freezing struct {
	to    string
	files []FrozenFile
	err   error
	done  chan struct{}
}

// freezeKey is the request whose hook makes the copy: hooks run in kfake's loop,
// and while one runs nothing is written to the log.
const freezeKey = kmsg.DescribeLogDirs

// freezeWithin bounds the wait for kfake's loop.
const freezeWithin = 30 * time.Second

// Freeze puts into the directory to, which is empty and on the same file system,
// what a kill -9 at one moment would have left: a Start on it finds everything
// that was acknowledged before, and every transaction whole or not at all.
//
// Segments become second names of the files, which grow on: only Size bytes of
// each belong to the copy. The caller copies them elsewhere, and removes to.
func (b *Broker) Freeze(ctx context.Context, to string) ([]FrozenFile, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.data == "" {
		return nil, errors.New("freeze broker: it keeps nothing on disk")
	}
	f := &freezing{to: to, done: make(chan struct{})}
	if !b.freezing.CompareAndSwap(nil, f) {
		return nil, errors.New("freeze broker: another copy is under way")
	}
	defer b.freezing.CompareAndSwap(f, nil)
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr), kgo.Dialer(b.Dial))
	if err != nil {
		return nil, fmt.Errorf("freeze broker: %w", err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, freezeWithin)
	defer cancel()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{} // none: the answer is of no interest
	if _, err := req.RequestWith(ctx, cl); err != nil {
		return nil, fmt.Errorf("freeze broker: %w", err)
	}
	select {
	case <-f.done:
	default:
		return nil, errors.New("freeze broker: the copy was not made")
	}
	if f.err != nil {
		return nil, fmt.Errorf("freeze broker: %w", f.err)
	}
	return f.files, nil
}

// onFreeze runs in kfake's loop. No outcome is written meanwhile either. The
// journal is left out: it holds nothing that the other files do not show to a
// reader on this machine.
func (b *node) onFreeze() {
	f := b.freezing.Swap(nil)
	if f == nil {
		return // somebody else asked for the log directories
	}
	defer close(f.done)
	b.txns.mu.Lock()
	defer b.txns.mu.Unlock()
	f.err = filepath.WalkDir(b.opts.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(b.opts.Dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name == cleanDir:
			return fs.SkipDir // copies of what is in the log
		case d.IsDir():
			return os.MkdirAll(filepath.Join(f.to, name), 0o700)
		case leftOut(name):
			return nil
		}
		return f.add(path, name)
	})
}

// leftOut says that a start needs no copy of a file.
func leftOut(name string) bool {
	return name == lockFile || name == journalName(0) || name == journalName(1) || strings.HasSuffix(name, ".tmp") ||
		strings.HasSuffix(name, ".idx") // written anew from the segment
}

func (f *freezing) add(path, name string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	to := filepath.Join(f.to, name)
	put := linkOrCopy
	if !strings.HasSuffix(name, ".dat") { // kfake writes it over
		put = copyFile
	}
	if err := put(path, to); err != nil {
		return err
	}
	f.files = append(f.files, FrozenFile{Path: name, Size: info.Size()})
	return nil
}

// linkOrCopy gives a file a second name.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	if err := copyFile(from, to); err != nil {
		return err
	}
	return syncPath(to, datasync)
}

// copyFile keeps the time of the last write: retention goes by it.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chtimes(to, info.ModTime(), info.ModTime()))
}
