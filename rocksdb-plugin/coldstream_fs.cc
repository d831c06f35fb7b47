#include "coldstream_fs.h"

#include <cstring>

#include "direct_io.h"
#include "engine.h"
#include "rocksdb/file_system.h"
#include "rocksdb/utilities/object_registry.h"
#include "table_reader_file.h"
#include "table_writer_file.h"

namespace ROCKSDB_NAMESPACE {
namespace coldstream_plugin {

namespace {

// `<digits>.sst` (file/filename.cc, MakeTableFileName). Nothing else is touched: no log, no MANIFEST, and no table that
// a user names.
bool IsTable(const std::string& path) {
  const size_t start = path.rfind('/') + 1;  // 0 where there is none
  const size_t digits = path.find_first_not_of("0123456789", start);
  return digits != std::string::npos && digits > start && path.compare(digits, std::string::npos, ".sst") == 0;
}

class ColdstreamFileSystem : public FileSystemWrapper {
 public:
  ColdstreamFileSystem(const std::shared_ptr<FileSystem>& base, const std::shared_ptr<Engine>& engine)
      : FileSystemWrapper(base), engine_(engine) {}

  static const char* kClassName() { return "coldstream"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* result, IODebugContext* dbg) override {
    IOStatus status = CheckMappedReads(options);
    return status.ok() ? target()->NewSequentialFile(path, options, result, dbg) : status;
  }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSRandomAccessFile>* result, IODebugContext* dbg) override {
    IOStatus status = CheckMappedReads(options);
    if (!status.ok()) {
      return status;
    }
    status = target()->NewRandomAccessFile(path, options, result, dbg);
    // The engine's own direct reads and mapped ones are left alone.
    if (status.ok() && IsTable(path) && !options.use_mmap_reads && !options.use_direct_reads) {
      *result = TableReaderFile::Wrap(engine_, path, std::move(*result));
    }
    return status;
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* result, IODebugContext* dbg) override {
    IOStatus status = CheckMappedReads(options);
    if (!status.ok()) {
      return status;
    }
    const bool is_table = IsTable(path);
    if (is_table && options.use_mmap_writes && !engine_->allows_mmap()) {
      return MappedError("allow_mmap_writes");
    }
    status = target()->NewWritableFile(path, options, result, dbg);
    if (status.ok() && is_table && !options.use_mmap_writes) {
      result->reset(new TableWriterFile(engine_, path, options, std::move(*result)));
    }
    return status;
  }

  // RocksDB opens the directories of a database before it writes a table into them.
  IOStatus NewDirectory(const std::string& path, const IOOptions& options, std::unique_ptr<FSDirectory>* result,
                        IODebugContext* dbg) override {
    IOStatus status = target()->NewDirectory(path, options, result, dbg);
    if (status.ok() && engine_->demands_direct() && !HasDirectIo(path)) {
      result->reset();
      return IOStatus::NotSupported("coldstream: the filesystem of " + path +
                                    " has no direct I/O: use reads=auto and writes=auto, or another filesystem");
    }
    return status;
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options, IODebugContext* dbg) override {
    coldstream_file* file = nullptr;
    if (IsLastName(path)) {
      coldstream_file_open(engine_->context(), path.c_str(), COLDSTREAM_FORMAT_ROCKSDB, &file);
    }
    IOStatus status = target()->DeleteFile(path, options, dbg);
    if (file != nullptr) {
      if (status.ok()) {
        coldstream_file_forget(file);
      }
      coldstream_file_close(file);
    }
    return status;
  }

 private:
  // Whether deleting the path deletes a table: a checkpoint may have it by another name.
  bool IsLastName(const std::string& path) {
    uint64_t links = 0;
    return IsTable(path) && target()->NumFileLinks(path, IOOptions(), &links, nullptr).ok() && links == 1;
  }

  static IOStatus MappedError(const char* option) {
    return IOStatus::InvalidArgument(std::string("coldstream: ") + option +
                                     " is on, and mapped tables cannot be followed: set it to false,"
                                     " or use coldstream://mmap=plain to leave this database alone");
  }

  // The options of all files tell how tables will be read: so a database is refused when it is opened.
  IOStatus CheckMappedReads(const FileOptions& options) const {
    return options.use_mmap_reads && !engine_->allows_mmap() ? MappedError("allow_mmap_reads") : IOStatus::OK();
  }

  const std::shared_ptr<Engine> engine_;
};

// What stands behind coldstream:// in a URI.
std::string OptionsOf(const std::string& uri) {
  const size_t length = strlen(kColdstreamUri);
  return uri.compare(0, length, kColdstreamUri) == 0 ? uri.substr(length) : "";
}

ObjectLibrary::PatternEntry UriPattern() {
  return ObjectLibrary::PatternEntry(ColdstreamFileSystem::kClassName(), true).AddSeparator("://", false);
}

}  // namespace

}  // namespace coldstream_plugin

Status NewColdstreamFileSystem(const std::string& options, const std::shared_ptr<FileSystem>& base,
                               std::shared_ptr<FileSystem>* result) {
  std::shared_ptr<coldstream_plugin::Engine> engine;
  Status status = coldstream_plugin::Engine::Create(options, &engine);
  if (status.ok()) {
    *result = std::make_shared<coldstream_plugin::ColdstreamFileSystem>(base, engine);
  }
  return status;
}

Status NewColdstreamEnv(const std::string& options, Env** result) {
  std::shared_ptr<FileSystem> filesystem;
  Status status = NewColdstreamFileSystem(options, FileSystem::Default(), &filesystem);
  if (status.ok()) {
    *result = NewCompositeEnv(filesystem).release();
  }
  return status;
}

}  // namespace ROCKSDB_NAMESPACE

extern "C" int RegisterColdstream(ROCKSDB_NAMESPACE::ObjectLibrary& library, const std::string& /*argument*/) {
  using namespace ROCKSDB_NAMESPACE;  // NOLINT: the function must be global
  library.AddFactory<FileSystem>(
      coldstream_plugin::UriPattern(),
      [](const std::string& uri, std::unique_ptr<FileSystem>* guard, std::string* error) -> FileSystem* {
        std::shared_ptr<coldstream_plugin::Engine> engine;
        const Status status = coldstream_plugin::Engine::Create(coldstream_plugin::OptionsOf(uri), &engine);
        if (!status.ok()) {
          *error = status.ToString();
          return nullptr;
        }
        guard->reset(new coldstream_plugin::ColdstreamFileSystem(FileSystem::Default(), engine));
        return guard->get();
      });
  library.AddFactory<Env>(
      coldstream_plugin::UriPattern(),
      [](const std::string& uri, std::unique_ptr<Env>* /*guard*/, std::string* error) -> Env* {
        Env* env = nullptr;
        const Status status = NewColdstreamEnv(coldstream_plugin::OptionsOf(uri), &env);
        if (!status.ok()) {
          *error = status.ToString();
        }
        return env;
      });
  return 2;
}
