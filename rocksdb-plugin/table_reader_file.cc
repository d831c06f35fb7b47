#include "table_reader_file.h"

#include "activity.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

std::unique_ptr<FSRandomAccessFile> TableReaderFile::Wrap(const std::shared_ptr<Engine>& engine,
                                                          const std::string& path,
                                                          std::unique_ptr<FSRandomAccessFile>&& target) {
  coldstream_file* file = nullptr;
  if (coldstream_file_open(engine->context(), path.c_str(), COLDSTREAM_FORMAT_ROCKSDB, &file) != 0) {
    return std::move(target);
  }
  return std::unique_ptr<FSRandomAccessFile>(new TableReaderFile(engine, path, file, std::move(target)));
}

TableReaderFile::~TableReaderFile() { coldstream_file_close(file_); }

IOStatus TableReaderFile::Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                               IODebugContext* dbg) const {
  const coldstream_activity activity = ActivityOfRead(options);
  if (activity != COLDSTREAM_FOREGROUND) {
    return BackgroundRead(activity, offset, n, result, scratch);
  }
  const uint64_t token = coldstream_note_read(file_, offset, n);
  if (token == 0) {
    // The last call of the function, so that the compiler makes it a jump: one return less behind the system call.
    return target()->Read(offset, n, options, result, scratch, dbg);
  }
  IOStatus status = target()->Read(offset, n, options, result, scratch, dbg);
  coldstream_note_read_done(file_, token);
  return status;
}

IOStatus TableReaderFile::BackgroundRead(coldstream_activity activity, uint64_t offset, size_t n, Slice* result,
                                         char* scratch) const {
  size_t done = 0;
  while (done < n) {
    const int64_t count = coldstream_file_read(file_, activity, offset + done, scratch + done, n - done);
    if (count < 0) {
      *result = Slice(scratch, 0);
      return ErrorOf(count, "read", path_);
    }
    if (count == 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  *result = Slice(scratch, done);
  return IOStatus::OK();
}

IOStatus TableReaderFile::MultiRead(FSReadRequest* reqs, size_t num_reqs, const IOOptions& options,
                                    IODebugContext* dbg) {
  const coldstream_activity activity = ActivityOfRead(options);
  if (activity == COLDSTREAM_FOREGROUND) {
    // The tokens are left: a latency of many reads at once is none of a read.
    for (size_t i = 0; i < num_reqs; ++i) {
      coldstream_note_read(file_, reqs[i].offset, reqs[i].len);
    }
    return target()->MultiRead(reqs, num_reqs, options, dbg);
  }
  for (size_t i = 0; i < num_reqs; ++i) {
    FSReadRequest& req = reqs[i];
    req.status = BackgroundRead(activity, req.offset, req.len, &req.result, req.scratch);
  }
  return IOStatus::OK();
}

IOStatus TableReaderFile::ReadAsync(FSReadRequest& req, const IOOptions& options, ReadAsyncCallback cb, void* cb_arg,
                                    void** io_handle, IOHandleDeleter* del_fn, IODebugContext* dbg) {
  const coldstream_activity activity = ActivityOfRead(options);
  if (activity == COLDSTREAM_FOREGROUND) {
    coldstream_note_read(file_, req.offset, req.len);
    return target()->ReadAsync(req, options, cb, cb_arg, io_handle, del_fn, dbg);
  }
  req.status = BackgroundRead(activity, req.offset, req.len, &req.result, req.scratch);
  cb(req, cb_arg);
  return IOStatus::OK();
}

IOStatus TableReaderFile::Prefetch(uint64_t offset, size_t n, const IOOptions& options, IODebugContext* dbg) {
  const coldstream_activity activity = ActivityOfRead(options);
  if (activity == COLDSTREAM_FOREGROUND) {
    return target()->Prefetch(offset, n, options, dbg);
  }
  return coldstream_file_reads_ahead(file_, activity) == 1
             ? IOStatus::OK()
             : IOStatus::NotSupported("coldstream: the page cache is not for background reads");
}

}  // namespace coldstream_plugin
}  // namespace ROCKSDB_NAMESPACE
