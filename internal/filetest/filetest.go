// Package filetest looks for a text in the files of a directory, for tests of erasure.
package filetest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Holding names the files below dir that have the text. An open store removes files
// meanwhile, after it has written what they held to others: then it begins anew.
func Holding(t testing.TB, dir, text string) []string {
	t.Helper()
	for {
		names, err := holding(dir, text)
		if err == nil {
			return names
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func holding(dir, text string) (names []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	return names, err
}
