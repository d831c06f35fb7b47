// A program that brings RocksDB and Coldstream with it, fully static: nothing is preloaded, nothing is installed.
// It fills a database, compacts it, reads it, and prints how the compaction read and wrote.

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "coldstream.h"
#include "coldstream_fs.h"
#include "rocksdb/db.h"

using rocksdb::DB;
using rocksdb::Status;

namespace {

void CheckOk(const Status& status) {
  if (!status.ok()) {
    fprintf(stderr, "demo: %s\n", status.ToString().c_str());
    exit(1);
  }
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
    for (int number = 0; number < 20000; ++number) {
      CheckOk(db->Put(rocksdb::WriteOptions(), std::to_string(number), std::string(1000, 'a')));
    }
    CheckOk(db->Flush(rocksdb::FlushOptions()));
  }
  CheckOk(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
  std::string value;
  CheckOk(db->Get(rocksdb::ReadOptions(), "4711", &value));
  db.reset();

  coldstream* engine = nullptr;
  if (coldstream_create(nullptr, &engine, nullptr, 0) != 0) {
    return 1;
  }
  // These inputs were just written: a compaction takes them out of the page cache.
  uint64_t cached = 0;
  uint64_t around = 0;
  coldstream_counter(engine, "bytes_from_cache", &cached);
  coldstream_counter(engine, "bytes_direct", &around);
  printf("read by the compaction: %lu bytes out of the page cache, %lu around it\n", cached, around);
  coldstream_destroy(engine);
  return cached + around > 0 ? 0 : 1;
}
