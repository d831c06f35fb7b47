package main

import (
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// dropAll drops every page behind a compaction, whoever brought it in: the peer that a user of Pebble can write in an
// hour. It is what the preload library nocache does, for the files of compactions only.
type dropAll struct{ vfs.FS }

const dropEveryBytes = 1 << 20

// Open wraps the descriptors that Pebble opens in sequential mode: those of compactions.
func (fs dropAll) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	file, err := fs.FS.Open(name, options...)
	if err != nil || !slices.Contains(options, vfs.SequentialReadsOption) {
		return file, err
	}
	return &droppingFile{File: file}, nil
}

// Create wraps new tables.
func (fs dropAll) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := fs.FS.Create(name, category)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return file, err
	}
	return &droppingFile{File: file}, nil
}

func (fs dropAll) Unwrap() vfs.FS { return fs.FS }

// droppingFile is used by one goroutine, as compactions do.
type droppingFile struct {
	vfs.File
	dropped int64
}

func (f *droppingFile) ReadAt(bytes []byte, offset int64) (int, error) {
	count, err := f.File.ReadAt(bytes, offset)
	if end := offset + int64(count); end-f.dropped >= dropEveryBytes {
		_ = unix.Fadvise(int(f.Fd()), f.dropped, end-f.dropped, unix.FADV_DONTNEED)
		f.dropped = end
	}
	return count, err
}

// Close drops the rest. Pebble has synced a new table before it closes it.
func (f *droppingFile) Close() error {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	return f.File.Close()
}
