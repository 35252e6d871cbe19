package broker

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The names below are kfake's.

func partitionDir(data, topic string, partition int32) string {
	return filepath.Join(data, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(topic), partition))
}

// topicOf is the topic whose partition lies in dir.
func topicOf(dir string) string {
	name := filepath.Base(dir)
	topic, err := url.PathUnescape(name[:max(0, strings.LastIndexByte(name, '-'))])
	if err != nil {
		return ""
	}
	return topic
}

func segmentName(base int64) string { return strconv.FormatInt(base, 10) + ".dat" }
func indexName(base int64) string   { return strconv.FormatInt(base, 10) + ".idx" }

// segmentBases lists the base offsets of a partition's segments, ascending.
func segmentBases(dir string) ([]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var bases []int64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".dat")
		if !ok {
			continue
		}
		if base, err := strconv.ParseInt(name, 10, 64); err == nil && base >= 0 {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// replaceFile puts data under path, all of it or none, durably.
func replaceFile(path string, data []byte) error {
	tmp := path + ".tmp"
	if err := writeFile(tmp, data); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// writeFile writes and syncs a file; what was there is gone.
func writeFile(path string, data []byte) error {
	return writeDurably(path, os.O_CREATE|os.O_TRUNC, data)
}

// writeDurably opens a file with the flags, writes and syncs it.
func writeDurably(path string, flags int, data []byte) error {
	f, err := os.OpenFile(path, flags|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// truncateFile cuts a file, durably.
func truncateFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
