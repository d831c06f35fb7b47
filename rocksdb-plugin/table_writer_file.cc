#include "table_writer_file.h"

#include "activity.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

namespace {

// The permissions that RocksDB gives its files (env/fs_posix.cc).
constexpr uint32_t kMode = 0644;

}  // namespace

TableWriterFile::TableWriterFile(const std::shared_ptr<Engine>& engine, const std::string& path,
                                 const FileOptions& options, std::unique_ptr<FSWritableFile>&& target)
    : FSWritableFile(options),
      engine_(engine),
      path_(path),
      allows_allocation_(options.allow_fallocate && options.fallocate_with_keep_size),
      target_(std::move(target)) {}

TableWriterFile::~TableWriterFile() {
  if (IsStaged() && !is_closed_) {
    CloseStaged().PermitUncheckedError();
  }
}

void TableWriterFile::Decide(const IOOptions& options, IODebugContext* dbg) {
  if (is_decided_) {
    return;
  }
  is_decided_ = true;
  activity_ = ActivityOfWrite(options, io_priority_);
  // The engine's own direct writes go around the page cache by themselves.
  if (activity_ == COLDSTREAM_FOREGROUND || target_->use_direct_io()) {
    return;
  }
  const int error = coldstream_writer_open(engine_->context(), path_.c_str(), COLDSTREAM_FORMAT_ROCKSDB, activity_,
                                           COLDSTREAM_WRITER_TRUNCATE, kMode, &writer_);
  if (error != 0) {
    // The target still has the file.
    writer_ = nullptr;
    return;
  }
  // Nothing was written by it; the writer has a descriptor of its own.
  target_->Close(options, dbg).PermitUncheckedError();
}

IOStatus TableWriterFile::Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) {
  Decide(options, dbg);
  if (!IsStaged()) {
    return target_->Append(data, options, dbg);
  }
  size_t done = 0;
  while (done < data.size()) {
    const int64_t count = coldstream_writer_append(writer_, data.data() + done, data.size() - done);
    if (count < 0) {
      return ErrorOf(count, "append", path_);
    }
    done += static_cast<size_t>(count);
  }
  return IOStatus::OK();
}

IOStatus TableWriterFile::Append(const Slice& data, const IOOptions& options,
                                 const DataVerificationInfo& verification, IODebugContext* dbg) {
  Decide(options, dbg);
  return IsStaged() ? Append(data, options, dbg) : target_->Append(data, options, verification, dbg);
}

IOStatus TableWriterFile::PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                                           IODebugContext* dbg) {
  Decide(options, dbg);
  if (!IsStaged()) {
    return target_->PositionedAppend(data, offset, options, dbg);
  }
  // Only direct writers use it (file/writable_file_writer.cc).
  return IOStatus::NotSupported("coldstream: PositionedAppend to a staged table: " + path_);
}

IOStatus TableWriterFile::PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                                           const DataVerificationInfo& verification, IODebugContext* dbg) {
  Decide(options, dbg);
  return IsStaged() ? PositionedAppend(data, offset, options, dbg)
                    : target_->PositionedAppend(data, offset, options, verification, dbg);
}

IOStatus TableWriterFile::Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) {
  if (!IsStaged()) {
    return target_->Truncate(size, options, dbg);
  }
  const int error = coldstream_writer_truncate(writer_, size);
  return error == 0 ? IOStatus::OK() : ErrorOf(error, "truncate", path_);
}

IOStatus TableWriterFile::Close(const IOOptions& options, IODebugContext* dbg) {
  if (is_closed_) {
    return IOStatus::OK();
  }
  IOStatus status = IsStaged() ? CloseStaged() : target_->Close(options, dbg);
  is_closed_ = true;
  if (status.ok() && activity_ == COLDSTREAM_COMPACTION) {
    HandOver();
  }
  return status;
}

IOStatus TableWriterFile::CloseStaged() {
  int error = 0;
  if (has_allocated_) {
    // Gives back the blocks behind the end, as RocksDB's own files do.
    const int64_t size = coldstream_writer_size(writer_);
    error = size < 0 ? static_cast<int>(size) : coldstream_writer_truncate(writer_, static_cast<uint64_t>(size));
  }
  const int closed = coldstream_writer_close(writer_);
  writer_ = nullptr;
  is_closed_ = true;
  error = error != 0 ? error : closed;
  return error == 0 ? IOStatus::OK() : ErrorOf(error, "close", path_);
}

// Runs in the thread of the compaction, before it opens the table and makes it visible.
void TableWriterFile::HandOver() const {
  coldstream_file* output = nullptr;
  if (coldstream_file_open(engine_->context(), path_.c_str(), COLDSTREAM_FORMAT_ROCKSDB, &output) != 0) {
    return;
  }
  coldstream_handover(engine_->context(), nullptr, 0, output, nullptr, nullptr);
  coldstream_file_close(output);
}

IOStatus TableWriterFile::Flush(const IOOptions& options, IODebugContext* dbg) {
  if (!IsStaged()) {
    return target_->Flush(options, dbg);
  }
  if (activity_ == COLDSTREAM_COMPACTION) {
    return IOStatus::OK();
  }
  const int error = coldstream_writer_flush(writer_);
  return error == 0 ? IOStatus::OK() : ErrorOf(error, "flush", path_);
}

IOStatus TableWriterFile::Sync(const IOOptions& options, IODebugContext* dbg) {
  if (!IsStaged()) {
    return target_->Sync(options, dbg);
  }
  const int error = coldstream_writer_sync(writer_, /*data_only=*/1);
  return error == 0 ? IOStatus::OK() : ErrorOf(error, "fdatasync", path_);
}

IOStatus TableWriterFile::Fsync(const IOOptions& options, IODebugContext* dbg) {
  if (!IsStaged()) {
    return target_->Fsync(options, dbg);
  }
  const int error = coldstream_writer_sync(writer_, /*data_only=*/0);
  return error == 0 ? IOStatus::OK() : ErrorOf(error, "fsync", path_);
}

bool TableWriterFile::IsSyncThreadSafe() const { return IsStaged() || target_->IsSyncThreadSafe(); }

void TableWriterFile::SetIOPriority(Env::IOPriority priority) {
  io_priority_ = priority;
  target_->SetIOPriority(priority);
}

// Both count what they have allocated: whoever writes gives the rest back at its close.
void TableWriterFile::SetPreallocationBlockSize(size_t size) {
  FSWritableFile::SetPreallocationBlockSize(size);
  target_->SetPreallocationBlockSize(size);
}

void TableWriterFile::GetPreallocationStatus(size_t* block_size, size_t* last_allocated_block) {
  if (IsStaged()) {
    FSWritableFile::GetPreallocationStatus(block_size, last_allocated_block);
  } else {
    target_->GetPreallocationStatus(block_size, last_allocated_block);
  }
}

void TableWriterFile::SetWriteLifeTimeHint(Env::WriteLifeTimeHint hint) {
  write_hint_ = hint;
  // The kernel keeps the hint with the inode: it holds for the writer's descriptor, too.
  if (!IsStaged()) {
    target_->SetWriteLifeTimeHint(hint);
  }
}

uint64_t TableWriterFile::GetFileSize(const IOOptions& options, IODebugContext* dbg) {
  if (!IsStaged()) {
    return target_->GetFileSize(options, dbg);
  }
  const int64_t size = coldstream_writer_size(writer_);
  return size < 0 ? 0 : static_cast<uint64_t>(size);
}

IOStatus TableWriterFile::InvalidateCache(size_t offset, size_t length) {
  return IsStaged() ? IOStatus::OK() : target_->InvalidateCache(offset, length);
}

IOStatus TableWriterFile::RangeSync(uint64_t offset, uint64_t nbytes, const IOOptions& options, IODebugContext* dbg) {
  if (!IsStaged()) {
    return target_->RangeSync(offset, nbytes, options, dbg);
  }
  const int wait = strict_bytes_per_sync_ ? 1 : 0;
  const int error = coldstream_writer_range_sync(writer_, offset, nbytes, wait);
  return error == 0 ? IOStatus::OK() : ErrorOf(error, "sync_file_range", path_);
}

void TableWriterFile::PrepareWrite(size_t offset, size_t len, const IOOptions& options, IODebugContext* dbg) {
  Decide(options, dbg);
  if (IsStaged()) {
    FSWritableFile::PrepareWrite(offset, len, options, dbg);
  } else {
    target_->PrepareWrite(offset, len, options, dbg);
  }
}

IOStatus TableWriterFile::Allocate(uint64_t offset, uint64_t len, const IOOptions& options, IODebugContext* dbg) {
  if (!IsStaged()) {
    return target_->Allocate(offset, len, options, dbg);
  }
  if (!allows_allocation_) {
    return IOStatus::OK();
  }
  has_allocated_ = true;
  const int error = coldstream_writer_allocate(writer_, offset, len);
  return error == 0 ? IOStatus::OK() : ErrorOf(error, "fallocate", path_);
}

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
