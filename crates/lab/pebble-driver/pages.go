package main

import (
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// setPages sets the page cache of a database before a run. It drops the database's pages, and no
// other file's. A warm start then reads every file once: pages that stay resident would be charged to
// the cgroup that brought them in.
func setPages(directory string, warm bool) {
	entries, err := os.ReadDir(directory)
	check("list", err)
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			setPagesOf(filepath.Join(directory, entry.Name()), warm)
		}
	}
}

func setPagesOf(path string, warm bool) {
	file, err := os.Open(path)
	check("open", err)
	defer file.Close()
	check("sync", file.Sync())
	check("drop", unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
	if warm {
		_, err = io.Copy(io.Discard, file)
		check("read", err)
	}
}
