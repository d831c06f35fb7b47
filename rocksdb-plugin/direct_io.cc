#include "direct_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

bool HasDirectIo(const std::string& directory) {
  // A file without a name: tmpfs and others accept O_DIRECT, and only statx(2) tells that it has no effect.
  const int descriptor = open(directory.c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    return errno != EINVAL;
  }
  bool has_direct_io = true;
#ifdef STATX_DIOALIGN
  struct statx found = {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) == 0) {
    const bool is_known = (found.stx_mask & STATX_DIOALIGN) != 0;
    has_direct_io = is_known && found.stx_dio_offset_align != 0;
  }
#endif
  close(descriptor);
  return has_direct_io;
}

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
