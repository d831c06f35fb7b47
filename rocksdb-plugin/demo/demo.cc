// A program that brings RocksDB and Coldstream with it, fully static: nothing is preloaded, nothing is installed.
// It fills a database, drops it from the page cache, reads some keys, and compacts. Then it prints how the compaction
// read and wrote, and what the handover did.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "coldstream.h"
#include "coldstream_fs.h"
#include "rocksdb/db.h"

using rocksdb::DB;
using rocksdb::Status;

namespace {

constexpr int kKeys = 20000;
constexpr int kHotStride = 200;

void CheckOk(const Status& status) {
  if (!status.ok()) {
    fprintf(stderr, "demo: %s\n", status.ToString().c_str());
    exit(1);
  }
}

// Data that nobody has read for a while is not in the page cache.
void DropFromPageCache(DB* db, const std::string& path) {
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  for (const auto& table : files) {
    const int descriptor = open((path + table.name).c_str(), O_RDONLY);
    if (descriptor >= 0) {
      posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
      close(descriptor);
    }
  }
}

void ReadHotKeys(DB* db) {
  std::string value;
  for (int repeat = 0; repeat < 4; ++repeat) {
    for (int number = 0; number < kKeys; number += kHotStride) {
      CheckOk(db->Get(rocksdb::ReadOptions(), std::to_string(number), &value));
    }
  }
}

uint64_t Counter(const coldstream* engine, const char* name) {
  uint64_t value = 0;
  coldstream_counter(engine, name, &value);
  return value;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: demo DIRECTORY\n");
    return 2;
  }
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  CheckOk(rocksdb::NewColdstreamEnv("pacing=on;log=none", &options.env));
  DB* opened = nullptr;
  CheckOk(DB::Open(options, arguments[1], &opened));
  std::unique_ptr<DB> db(opened);
  for (int round = 0; round < 2; ++round) {
    for (int number = 0; number < kKeys; ++number) {
      CheckOk(db->Put(rocksdb::WriteOptions(), std::to_string(number), std::string(1000, 'a')));
    }
    CheckOk(db->Flush(rocksdb::FlushOptions()));
  }
  DropFromPageCache(db.get(), arguments[1]);
  ReadHotKeys(db.get());
  CheckOk(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  db.reset();

  coldstream* engine = nullptr;
  if (coldstream_create(nullptr, &engine, nullptr, 0) != 0) {
    return 1;
  }
  const uint64_t cached = Counter(engine, "bytes_from_cache");
  const uint64_t direct = Counter(engine, "bytes_direct");
  printf("read by the compaction: %lu bytes around the page cache, %lu out of it\n", direct, cached);
  printf("written by it: %lu bytes around the page cache\n", Counter(engine, "write_bytes_direct"));
  printf("handed over: %lu hot pages, of which %lu were read into the page cache\n",
         Counter(engine, "handover_pages_hot"), Counter(engine, "handover_pages_warmed"));
  coldstream_destroy(engine);
  return cached + direct > 0 ? 0 : 1;
}
