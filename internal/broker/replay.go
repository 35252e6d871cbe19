package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// replayer puts the journal's bytes back into the files they are copies of.
// It may be killed at any step and run again.
type replayer struct {
	root    string
	files   map[string]*os.File
	gone    map[string]bool
	renewed int64 // bytes that were not there
}

// replay makes every file what it was when the journal was last synced, and
// syncs it.
func replay(root string, list []extent) (renewed int64, err error) {
	r := &replayer{root: root, files: map[string]*os.File{}, gone: map[string]bool{}}
	defer func() {
		for _, f := range r.files {
			f.Close()
		}
	}()
	for _, e := range list {
		if err := r.put(e); err != nil {
			return r.renewed, fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return r.renewed, r.sync()
}

func (r *replayer) put(e extent) error {
	f, err := r.open(e)
	if f == nil || err != nil {
		return err
	}
	there := make([]byte, len(e.data))
	n, err := f.ReadAt(there, e.at)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n == len(e.data) && bytes.Equal(there, e.data) {
		return nil
	}
	r.renewed += int64(len(e.data))
	_, err = f.WriteAt(e.data, e.at)
	return err
}

// open returns nil for a file that was deleted since: what comes before an
// extent was durable where it lay, the file's name with it.
func (r *replayer) open(e extent) (*os.File, error) {
	if f := r.files[e.path]; f != nil || r.gone[e.path] {
		return f, nil
	}
	path := filepath.Join(r.root, e.path)
	flag := os.O_RDWR
	if e.at == 0 {
		flag |= os.O_CREATE
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		r.gone[e.path] = true
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.files[e.path] = f
	info, err := f.Stat()
	if err == nil && info.Size() < e.at {
		err = fmt.Errorf("ends at byte %d, and the journal goes on at %d: restore a copy, or delete the broker "+
			"directory to start empty", info.Size(), e.at)
	}
	return f, err
}

func (r *replayer) sync() error {
	dirs := map[string]bool{}
	for _, f := range r.files {
		if err := f.Sync(); err != nil {
			return err
		}
		dir := filepath.Dir(f.Name())
		dirs[dir], dirs[filepath.Dir(dir)] = true, true
	}
	for dir := range dirs {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	return nil
}
