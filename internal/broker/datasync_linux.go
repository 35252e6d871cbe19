package broker

import (
	"os"
	"syscall"
)

// datasync is fsync without what no reader of the file needs, such as its time
// of writing (fdatasync(2)).
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if err != syscall.EINTR {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
