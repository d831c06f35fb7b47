// Sets the page cache of a database before a run.

#pragma once

#include "fail.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace driver {

// Drops the database's pages, and no other file's: the run starts cold.
inline void DropPages(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    ::fsync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

// Reads the whole database into the page cache. To be called after DropPages: the files are hard
// links, and resident pages stay charged to the cgroup that brought them in.
inline void WarmPages(const std::string& path) {
  std::vector<char> buffer(1 << 20);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
      Fail(kExitEngine, "open %s: %s", entry.path().c_str(), std::strerror(errno));
    }
    for (;;) {
      ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) Fail(kExitEngine, "read %s: %s", entry.path().c_str(), std::strerror(errno));
      if (count == 0) break;
    }
    ::close(descriptor);
  }
}

}  // namespace driver
