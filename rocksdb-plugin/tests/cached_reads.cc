#include "cached_reads.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

using namespace rocksdb;  // NOLINT

namespace {

class CachedReadsFile : public FSRandomAccessFileOwnerWrapper {
 public:
  CachedReadsFile(std::unique_ptr<FSRandomAccessFile>&& target, int descriptor, ReadCounts* counts)
      : FSRandomAccessFileOwnerWrapper(std::move(target)), descriptor_(descriptor), counts_(counts) {}
  ~CachedReadsFile() override { close(descriptor_); }

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) const override {
    // RWF_NOWAIT: only what is in the page cache.
    iovec part = {scratch, n};
    const ssize_t count = preadv2(descriptor_, &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    (count == static_cast<ssize_t>(n) ? counts_->cached : counts_->missed) += 1;
    return target()->Read(offset, n, options, result, scratch, dbg);
  }

 private:
  const int descriptor_;
  ReadCounts* const counts_;
};

class CachedReadsFileSystem : public FileSystemWrapper {
 public:
  CachedReadsFileSystem(const std::shared_ptr<FileSystem>& base, ReadCounts* counts)
      : FileSystemWrapper(base), counts_(counts) {}
  const char* Name() const override { return "cached-reads"; }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* result, IODebugContext* dbg) override {
    IOStatus status = target()->NewRandomAccessFile(path, options, result, dbg);
    const int descriptor = status.ok() ? open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
      result->reset(new CachedReadsFile(std::move(*result), descriptor, counts_));
    }
    return status;
  }

 private:
  ReadCounts* const counts_;
};

}  // namespace

std::shared_ptr<FileSystem> NewCachedReadsFileSystem(const std::shared_ptr<FileSystem>& base, ReadCounts* counts) {
  return std::make_shared<CachedReadsFileSystem>(base, counts);
}
