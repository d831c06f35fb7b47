// A table that is read: plain reads for the foreground, the scan reader for the background.

#pragma once

#include <memory>

#include "engine.h"
#include "rocksdb/file_system.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

// The type of the callback of ReadAsync: it changed between releases.
template <typename Method>
struct ReadAsyncMethod;
template <typename Class, typename Callback>
struct ReadAsyncMethod<IOStatus (Class::*)(FSReadRequest&, const IOOptions&, Callback, void*, void**,
                                           IOHandleDeleter*, IODebugContext*)> {
  using CallbackType = Callback;
};
using ReadAsyncCallback = ReadAsyncMethod<decltype(&FSRandomAccessFile::ReadAsync)>::CallbackType;

class TableReaderFile : public FSRandomAccessFileOwnerWrapper {
 public:
  // Takes the table at `path` that `target` has opened. Gives `target` back if the engine cannot follow the file.
  static std::unique_ptr<FSRandomAccessFile> Wrap(const std::shared_ptr<Engine>& engine, const std::string& path,
                                                  std::unique_ptr<FSRandomAccessFile>&& target);
  ~TableReaderFile() override;

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) const override;
  IOStatus MultiRead(FSReadRequest* reqs, size_t num_reqs, const IOOptions& options, IODebugContext* dbg) override;
  IOStatus ReadAsync(FSReadRequest& req, const IOOptions& options, ReadAsyncCallback cb, void* cb_arg,
                     void** io_handle, IOHandleDeleter* del_fn, IODebugContext* dbg) override;
  // For the background: nothing where windows are read ahead, else NotSupported. Then the engine reads into a buffer of
  // its own, not into the page cache.
  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions& options, IODebugContext* dbg) override;

 private:
  TableReaderFile(const std::shared_ptr<Engine>& engine, const std::string& path, coldstream_file* file,
                  std::unique_ptr<FSRandomAccessFile>&& target)
      : FSRandomAccessFileOwnerWrapper(std::move(target)), engine_(engine), path_(path), file_(file) {}
  IOStatus BackgroundRead(coldstream_activity activity, uint64_t offset, size_t n, Slice* result,
                          char* scratch) const;

  const std::shared_ptr<Engine> engine_;
  const std::string path_;
  coldstream_file* const file_;
};

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
