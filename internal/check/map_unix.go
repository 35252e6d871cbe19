//go:build unix

package check

import (
	"fmt"
	"os"
	"syscall"
)

// mapFile maps a file into memory. A dump is far larger than the part that is in use at a time,
// and the kernel can drop pages.
func mapFile(name string) ([]byte, func() error, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if st.Size() == 0 {
		return nil, func() error { return nil }, nil
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(st.Size()), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", name, err)
	}
	return b, func() error { return syscall.Munmap(b) }, nil
}
