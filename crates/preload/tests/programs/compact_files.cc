// RocksDB with known hot keys, compacted by CompactFiles in this thread.
//
//   compact_files compact DIRECTORY KEYS STRIDE RUN_LENGTH TIMES OPTIONS
//     reads the hot keys as hot_keys.c does, compacts all SSTables by one call, and ends
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/metadata.h>
#include <rocksdb/options.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

void Check(const rocksdb::Status& status) {
  if (!status.ok()) {
    fprintf(stderr, "%s\n", status.ToString().c_str());
    exit(1);
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 8) return 2;
  const long keys = atol(arguments[3]), stride = atol(arguments[4]), hot = atol(arguments[5]);
  rocksdb::Options options;
  Check(rocksdb::GetOptionsFromString(rocksdb::Options(), arguments[7], &options));
  rocksdb::DB* database = nullptr;
  Check(rocksdb::DB::Open(options, arguments[2], &database));
  for (long times = atol(arguments[6]); times > 0; times--) {
    for (long turn = 0; turn < keys; turn++) {
      // Not in key order, which would be a scan.
      const long number = turn * 7919 % keys;
      if (number % stride >= hot) continue;
      char key[32];
      snprintf(key, sizeof key, "key%013ld", number);
      std::string value;
      Check(database->Get(rocksdb::ReadOptions(), key, &value));
    }
  }
  std::vector<rocksdb::LiveFileMetaData> files;
  database->GetLiveFilesMetaData(&files);
  std::vector<std::string> names;
  for (const rocksdb::LiveFileMetaData& file : files) names.push_back(file.name);
  rocksdb::CompactionOptions compaction;
  compaction.output_file_size_limit = options.target_file_size_base;
  Check(database->CompactFiles(compaction, names, 1));
  Check(database->Close());
  delete database;
  return 0;
}
