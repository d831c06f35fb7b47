// RocksDB with the plugin, in one process: contents, residency, handover, errors. Arguments: a directory on a
// filesystem with direct I/O, and one without (or "-").

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "cached_reads.h"
#include "coldstream.h"
#include "coldstream_c.h"
#include "coldstream_fs.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/table.h"
#include "rocksdb/version.h"

// As RocksDB's list of plugins declares it (util/build_version.cc.in).
extern "C" {
int RegisterColdstream(rocksdb::ObjectLibrary&, const std::string&);
}

using namespace rocksdb;  // NOLINT

namespace {

constexpr int kKeys = 24000;
constexpr int kHotStride = 40;
constexpr size_t kValueBytes = 2000;

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) {                                                             \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);       \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

void CheckOk(const Status& status, const char* what) {
  if (!status.ok()) {
    fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
    exit(1);
  }
}

Status Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
#if ROCKSDB_MAJOR >= 11
  return DB::Open(options, path, db);
#else
  DB* opened = nullptr;
  Status status = DB::Open(options, path, &opened);
  db->reset(opened);
  return status;
#endif
}

void CheckError(const Status& status, const char* part) {
  if (status.ok() || status.ToString().find(part) == std::string::npos) {
    fprintf(stderr, "expected an error with \"%s\", not: %s\n", part, status.ToString().c_str());
    exit(1);
  }
}

std::string Key(int number) {
  char text[16];
  snprintf(text, sizeof(text), "key%08d", number);
  return text;
}

// Incompressible, and different in each round.
std::string Value(int number, int round) {
  std::string value(kValueBytes, '\0');
  uint64_t state = static_cast<uint64_t>(number) * 2654435761u + static_cast<uint64_t>(round) + 1;
  for (char& byte : value) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  return value;
}

Options DatabaseOptions(Env* env) {
  Options options;
  options.env = env;
  options.create_if_missing = true;
  options.compression = kNoCompression;
  options.disable_auto_compactions = true;
  options.target_file_size_base = 8 << 20;
  BlockBasedTableOptions table;
  table.no_block_cache = true;
  options.table_factory.reset(NewBlockBasedTableFactory(table));
  return options;
}

void Load(DB* db, int round) {
  for (int number = 0; number < kKeys; ++number) {
    CheckOk(db->Put(WriteOptions(), Key(number), Value(number, round)), "put");
  }
  CheckOk(db->Flush(FlushOptions()), "flush");
}

void ReadHot(DB* db) {
  std::string value;
  for (int number = 0; number < kKeys; number += kHotStride) {
    CheckOk(db->Get(ReadOptions(), Key(number), &value), "get");
    CHECK(value == Value(number, 1));
  }
}

// Cached and all pages of the tables of a database.
std::pair<uint64_t, uint64_t> Residency(DB* db, const std::string& path) {
  std::pair<uint64_t, uint64_t> pages;
  std::vector<LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  for (const auto& table : files) {
    const int descriptor = open((path + table.name).c_str(), O_RDONLY);
    CHECK(descriptor >= 0);
    const size_t count = (table.size + 4095) / 4096;
    std::vector<unsigned char> resident(count);
    void* map = mmap(nullptr, table.size, PROT_READ, MAP_SHARED, descriptor, 0);
    CHECK(map != MAP_FAILED && mincore(map, table.size, resident.data()) == 0);
    for (unsigned char page : resident) {
      pages.first += page & 1;
    }
    pages.second += count;
    munmap(map, table.size);
    close(descriptor);
  }
  return pages;
}

void DropCache(DB* db, const std::string& path) {
  std::vector<LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  for (const auto& table : files) {
    const int descriptor = open((path + table.name).c_str(), O_RDONLY);
    CHECK(descriptor >= 0 && posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(descriptor);
  }
}

void CheckContents(DB* db) {
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  int number = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++number) {
    CHECK(iterator->key() == Key(number) && iterator->value() == Value(number, 1));
  }
  CheckOk(iterator->status(), "iterate");
  CHECK(number == kKeys);
}

// The whole way of a hot key: flushed, read, compacted, read again.
void TestCompaction(const std::string& path) {
  ReadCounts counts;
  std::shared_ptr<FileSystem> filesystem;
  CheckOk(NewColdstreamFileSystem("", NewCachedReadsFileSystem(FileSystem::Default(), &counts), &filesystem),
          "make the filesystem");
  std::unique_ptr<Env> env = NewCompositeEnv(filesystem);
  std::unique_ptr<DB> db;
  // All of a flush stays in the page cache. A reclaimer of the machine may take some: three tries.
  bool stays = false;
  for (int tries = 0; tries < 3 && !stays; ++tries) {
    db.reset();
    CheckOk(DestroyDB(path, DatabaseOptions(env.get())), "destroy");
    CheckOk(Open(DatabaseOptions(env.get()), path, &db), "open");
    Load(db.get(), 0);
    Load(db.get(), 1);
    const auto flushed = Residency(db.get(), path);
    stays = flushed.first == flushed.second;
  }
  CHECK(stays);

  DropCache(db.get(), path);
  for (int repeat = 0; repeat < 4; ++repeat) {
    ReadHot(db.get());
  }
  CheckOk(db->CompactRange(CompactRangeOptions(), nullptr, nullptr), "compact");
  const auto compacted = Residency(db.get(), path);
  counts.cached = 0;
  counts.missed = 0;
  ReadHot(db.get());
  const uint64_t cached = counts.cached;
  const uint64_t all = cached + counts.missed;
  printf("compaction: %lu of %lu pages of the output cached, %lu of %lu hot reads warm\n", compacted.first,
         compacted.second, cached, all);
  CHECK(compacted.first * 4 < compacted.second);
  CHECK(cached * 100 >= all * 99);
  CheckContents(db.get());
  db.reset();

  // Without the plugin the database is the same.
  CheckOk(Open(DatabaseOptions(Env::Default()), path, &db), "open plainly");
  CheckContents(db.get());
  CheckOk(db->VerifyChecksum(), "verify");
}

void TestErrors(const std::string& path, const std::string& path_without_direct_io) {
  std::shared_ptr<FileSystem> filesystem;
  const ConfigOptions config;
  CheckError(FileSystem::CreateFromString(config, "coldstream://reads=sideways", &filesystem), "reads");
  CheckError(FileSystem::CreateFromString(config, "coldstream://mmap=maybe", &filesystem), "mmap=plain");
  CheckError(FileSystem::CreateFromString(config, "coldstream://unheard=of", &filesystem), "unheard");
  Env* env = nullptr;
  CheckOk(NewColdstreamEnv("", &env), "make the environment");
  Options options = DatabaseOptions(env);
  options.allow_mmap_reads = true;
  std::unique_ptr<DB> db;
  CheckError(Open(options, path + "-mapped", &db), "allow_mmap_reads");
  char* error = nullptr;
  CHECK(rocksdb_create_coldstream_env("reads=sideways", &error) == nullptr && error != nullptr);
  free(error);
  if (path_without_direct_io != "-") {
    // A process has one engine, and it is there already: so these options are looked at by another process.
    CheckOk(Open(DatabaseOptions(env), path_without_direct_io, &db), "open without direct I/O");
    CheckOk(db->Put(WriteOptions(), "key", "value"), "put without direct I/O");
    CheckOk(db->Flush(FlushOptions()), "flush without direct I/O");
    CheckOk(db->CompactRange(CompactRangeOptions(), nullptr, nullptr), "compact without direct I/O");
  }
}

// The same engine by each of its names.
void TestNames(const std::string& path) {
  std::shared_ptr<FileSystem> filesystem;
  CheckOk(FileSystem::CreateFromString(ConfigOptions(), kColdstreamUri, &filesystem), "make by URI");
  CHECK(std::string(filesystem->Name()) == "coldstream");
  DBOptions options;
  CheckOk(GetDBOptionsFromString(ConfigOptions(), DBOptions(), "env=coldstream://", &options), "make by options string");
  CHECK(options.env != Env::Default());
  // RocksDB ignores an environment that it does not know, unless it is told otherwise.
  ConfigOptions strict;
  strict.ignore_unsupported_options = false;
  CheckOk(GetDBOptionsFromString(strict, DBOptions(), "env={id={coldstream://mmap=error}}", &options), "with options");
  CHECK(std::string(options.env->GetFileSystem()->Name()) == "coldstream");
  CHECK(!GetDBOptionsFromString(strict, DBOptions(), "env={id={coldstrem://}}", &options).ok());
  char* error = nullptr;
  rocksdb_env_t* env = rocksdb_create_coldstream_env(nullptr, &error);
  CHECK(env != nullptr && error == nullptr);
  rocksdb_options_t* c_options = rocksdb_options_create();
  rocksdb_options_set_env(c_options, env);
  rocksdb_options_set_create_if_missing(c_options, 1);
  rocksdb_t* db = rocksdb_open(c_options, (path + "-c").c_str(), &error);
  CHECK(db != nullptr && error == nullptr);
  rocksdb_close(db);
  rocksdb_options_destroy(c_options);
  rocksdb_env_destroy(env);
}

void TestDemandedDirect(const std::string& path) {
  Env* env = nullptr;
  CheckOk(NewColdstreamEnv("reads=direct", &env), "make the environment");
  std::unique_ptr<DB> db;
  CheckError(Open(DatabaseOptions(env), path, &db), "reads=auto");
}

// Mean time of a cached read.
double NsOfRead(FSRandomAccessFile* file, int reads) {
  char scratch[4096];
  Slice result;
  IOOptions options;
#if ROCKSDB_MAJOR >= 9
  options.io_activity = Env::IOActivity::kGet;  // as the engine says
#endif
  const auto start = std::chrono::steady_clock::now();
  for (int read = 0; read < reads; ++read) {
    file->Read(static_cast<uint64_t>(read * 97 % 250) * 4096, sizeof(scratch), options, &result, scratch, nullptr)
        .PermitUncheckedError();
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / reads;
}

// What the plugin adds to a read that the page cache answers.
void MeasureReads(const std::string& path) {
  std::shared_ptr<FileSystem> plain = FileSystem::Default();
  std::shared_ptr<FileSystem> filesystem;
  CheckOk(NewColdstreamFileSystem("", plain, &filesystem), "make the filesystem");
  const std::string table = path + "-000001.sst/000001.sst";
  CheckOk(plain->CreateDirIfMissing(path + "-000001.sst", IOOptions(), nullptr), "make a directory");
  CheckOk(WriteStringToFile(plain.get(), std::string(1 << 20, 'x'), table), "write");
  std::unique_ptr<FSRandomAccessFile> files[2];
  CheckOk(plain->NewRandomAccessFile(table, FileOptions(), &files[0], nullptr), "open");
  FileOptions options;
  CheckOk(filesystem->NewRandomAccessFile(table, options, &files[1], nullptr), "open");
  // Pairs of short turns in random order: what the host takes away hits both alike. 250 pages stay in the page cache.
  constexpr int kPairs = 1001;
  constexpr int kReads = 2000;
  std::mt19937 random(1);
  std::vector<double> plain_ns, added_ns;
  for (int pair = 0; pair < kPairs; ++pair) {
    double spent_ns[2];
    const int first = static_cast<int>(random() % 2);
    for (const int which : {first, 1 - first}) {
      spent_ns[which] = NsOfRead(files[which].get(), kReads);
    }
    plain_ns.push_back(spent_ns[0]);
    added_ns.push_back(spent_ns[1] - spent_ns[0]);
  }
  std::sort(plain_ns.begin(), plain_ns.end());
  std::sort(added_ns.begin(), added_ns.end());
  // The order statistics around the median that hold it with 99 %: n / 2 -+ 2.58 * sqrt(n) / 2.
  constexpr int kMiddle = kPairs / 2, kReach = 41;
  printf("cached read of 4 KiB: %.0f ns plain, %.0f ns more with the plugin (99 %% confidence: %.0f to %.0f)\n",
         plain_ns[kMiddle], added_ns[kMiddle], added_ns[kMiddle - kReach], added_ns[kMiddle + kReach]);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 2 ? arguments[1] : "";
  if (mode == "direct" && count == 3) {
    TestDemandedDirect(arguments[2]);
  } else if (mode == "bench" && count == 3) {
    MeasureReads(arguments[2]);
  } else if (mode == "test" && count == 4) {
    TestCompaction(arguments[2]);
    TestErrors(arguments[2], arguments[3]);
    TestNames(arguments[2]);
  } else {
    fprintf(stderr, "usage: plugin_test test DIR DIR_WITHOUT_DIRECT_IO|-, direct DIR_WITHOUT_DIRECT_IO, bench DIR\n");
    return 2;
  }
  return 0;
}
