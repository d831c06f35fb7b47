// A new table. Its first write says whether a compaction, a flush or the user writes it.

#pragma once

#include <memory>
#include <string>

#include "engine.h"
#include "rocksdb/file_system.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

class TableWriterFile : public FSWritableFile {
 public:
  // `target` has made the file at `path`, and writes it if the user does.
  TableWriterFile(const std::shared_ptr<Engine>& engine, const std::string& path, const FileOptions& options,
                  std::unique_ptr<FSWritableFile>&& target);
  ~TableWriterFile() override;

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override;
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo& verification,
                  IODebugContext* dbg) override;
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* dbg) override;
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const DataVerificationInfo& verification, IODebugContext* dbg) override;
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) override;
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override;
  // Nothing for a compaction: nobody reads its table, or needs it after a crash, before it is synced and closed.
  IOStatus Flush(const IOOptions& options, IODebugContext* dbg) override;
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override;
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override;
  bool IsSyncThreadSafe() const override;
  bool use_direct_io() const override { return target_->use_direct_io(); }
  size_t GetRequiredBufferAlignment() const override { return target_->GetRequiredBufferAlignment(); }
  void SetIOPriority(Env::IOPriority priority) override;
  void SetPreallocationBlockSize(size_t size) override;
  void GetPreallocationStatus(size_t* block_size, size_t* last_allocated_block) override;
  void SetWriteLifeTimeHint(Env::WriteLifeTimeHint hint) override;
  uint64_t GetFileSize(const IOOptions& options, IODebugContext* dbg) override;
  size_t GetUniqueId(char* id, size_t max_size) const override { return target_->GetUniqueId(id, max_size); }
  IOStatus InvalidateCache(size_t offset, size_t length) override;
  IOStatus RangeSync(uint64_t offset, uint64_t nbytes, const IOOptions& options, IODebugContext* dbg) override;
  void PrepareWrite(size_t offset, size_t len, const IOOptions& options, IODebugContext* dbg) override;
  IOStatus Allocate(uint64_t offset, uint64_t len, const IOOptions& options, IODebugContext* dbg) override;

 private:
  // Decides who writes; only the first call does.
  void Decide(const IOOptions& options, IODebugContext* dbg);
  bool IsStaged() const { return writer_ != nullptr; }
  IOStatus CloseStaged();
  void HandOver() const;

  const std::shared_ptr<Engine> engine_;
  const std::string path_;
  const bool allows_allocation_;
  const std::unique_ptr<FSWritableFile> target_;
  coldstream_writer* writer_ = nullptr;
  coldstream_activity activity_ = COLDSTREAM_FOREGROUND;
  bool is_decided_ = false;
  bool is_closed_ = false;
  bool has_allocated_ = false;
};

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
