//go:build !linux

package broker

import "os"

func datasync(f *os.File) error { return f.Sync() }
