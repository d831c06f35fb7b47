// A database that is killed, and its check (crates/testkit/src/crash/database.rs).
//
//   crash_database write OPTIONS    writes to the database `db` without an end; OPTIONS stand behind coldstream://,
//                                   `-` is RocksDB without the plugin
//   crash_database check OPTIONS DIR LEAST MOST [LEAST MOST]    each thread's last write is one of these
//
// RocksDB can refuse to open after a power cut, with or without the plugin. A block filesystem may have the new size of
// a MANIFEST on the disk, and of its last record only the part in an older block. Its synced records are there, so the
// check takes that record away, and says so.
//
// A thread writes the numbers 1, 2, 3, …: each to the key of its remainder, in the place of an older number. RocksDB
// recovers a prefix of the writes, so one number tells what every key of a thread must have.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coldstream_fs.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/version.h"

using namespace rocksdb;  // NOLINT

namespace {

constexpr int kThreads = 2;
constexpr uint64_t kKeys = 3000;
constexpr size_t kValueBytes = 1000;
constexpr uint64_t kWritesPerSync = 64;

// What a thread promises. The page outlives the process.
struct Promise {
  uint64_t intended;  // raised before each write
  uint64_t written;   // raised after it
  uint64_t synced;    // raised after one that was synced
};

void CheckOk(const Status& status, const char* what) {
  if (!status.ok()) {
    fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
    exit(1);
  }
}

std::string Key(int thread, uint64_t number) {
  char text[32];
  snprintf(text, sizeof(text), "%d-%06d", thread, static_cast<int>(number % kKeys));
  return text;
}

// Incompressible, and different for each number. It begins with the number.
std::string Value(int thread, uint64_t number) {
  std::string value(kValueBytes, '\0');
  uint64_t state = number * kThreads + static_cast<uint64_t>(thread);
  for (char& byte : value) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  const std::string text = std::to_string(number) + " ";
  return value.replace(0, text.size(), text);
}

// Small tables: flushes and compactions never end.
Options DatabaseOptions(Env* env) {
  Options options;
  options.env = env;
  options.create_if_missing = true;
  options.compression = kNoCompression;
  options.write_buffer_size = 512 << 10;
  options.target_file_size_base = 512 << 10;
  options.max_bytes_for_level_base = 2 << 20;
  options.level0_file_num_compaction_trigger = 2;
  options.max_background_jobs = 3;
  options.max_subcompactions = 2;
  options.bytes_per_sync = 128 << 10;
  options.paranoid_checks = true;
  return options;
}

Status TryOpen(Env* env, const std::string& path, std::unique_ptr<DB>* db) {
#if ROCKSDB_MAJOR >= 11
  return DB::Open(DatabaseOptions(env), path, db);
#else
  DB* opened = nullptr;
  const Status status = DB::Open(DatabaseOptions(env), path, &opened);
  db->reset(opened);
  return status;
#endif
}

std::unique_ptr<DB> Open(Env* env, const std::string& path) {
  std::unique_ptr<DB> db;
  CheckOk(TryOpen(env, path, &db), "open");
  return db;
}

// The length of a MANIFEST without its last record, if this is as long as the file and has only zeros from a block on.
// Else 0. Format: db/log_format.h of RocksDB.
size_t LengthWithoutTornRecord(const std::string& manifest) {
  constexpr size_t kLogBlock = 32768, kHeader = 7, kSmallestDiskBlock = 1024;
  constexpr char kFull = 1, kFirst = 2;
  size_t record = 0, fragment = 0;
  for (size_t next = 0; next < manifest.size();) {
    if (kLogBlock - next % kLogBlock < kHeader) {
      next += kLogBlock - next % kLogBlock;
      continue;
    }
    if (next + kHeader > manifest.size()) {
      return 0;
    }
    fragment = next;
    const auto* header = reinterpret_cast<const unsigned char*>(&manifest[next]);
    if (header[6] == kFull || header[6] == kFirst) {
      record = next;
    }
    next += kHeader + header[4] + 256u * header[5];
    if (next > manifest.size()) {
      return 0;
    }
  }
  const size_t last_byte = manifest.find_last_not_of('\0');
  const size_t zeros = last_byte == std::string::npos ? 0 : last_byte + 1;
  const size_t block = (zeros + kSmallestDiskBlock - 1) / kSmallestDiskBlock * kSmallestDiskBlock;
  return fragment + kHeader < block && block < manifest.size() ? record : 0;
}

// Whether a power cut tore the last record of the MANIFEST, and it has been taken away.
bool TornManifestIsMended(const std::string& database) {
  Env* env = Env::Default();
  std::string name, manifest;
  CheckOk(ReadFileToString(env, database + "/CURRENT", &name), "read CURRENT");
  const std::string path = database + "/" + name.substr(0, name.find('\n'));
  CheckOk(ReadFileToString(env, path, &manifest), "read the MANIFEST");
  const size_t length = LengthWithoutTornRecord(manifest);
  return length > 0 && truncate(path.c_str(), static_cast<off_t>(length)) == 0;
}

std::unique_ptr<DB> OpenAfterCrash(Env* env, const std::string& path) {
  std::unique_ptr<DB> db;
  Status status = TryOpen(env, path, &db);
  if (status.IsCorruption() && TornManifestIsMended(path)) {
    printf("MANIFEST torn, ");
    status = TryOpen(env, path, &db);
  }
  CheckOk(status, "open");
  return db;
}

void Raise(uint64_t* word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }

void WriteForever(DB* db, int thread, Promise* promise) {
  for (uint64_t number = 1;; ++number) {
    WriteOptions options;
    options.sync = number % kWritesPerSync == 0;
    Raise(&promise->intended, number);
    CheckOk(db->Put(options, Key(thread, number), Value(thread, number)), "put");
    Raise(&promise->written, number);
    if (options.sync) {
      Raise(&promise->synced, number);
    }
  }
}

void Write(Env* env) {
  const int page = open("../progress", O_RDWR);
  void* map = mmap(nullptr, sizeof(Promise) * kThreads, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
  if (map == MAP_FAILED) {
    perror("../progress");
    exit(1);
  }
  const std::unique_ptr<DB> db = Open(env, "db");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back(WriteForever, db.get(), thread, static_cast<Promise*>(map) + thread);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// The number that each key has must be the last one that was written to it, of those up to the greatest.
void CheckThread(int thread, const std::map<uint64_t, uint64_t>& numbers, uint64_t least, uint64_t most) {
  uint64_t greatest = 0;
  for (const auto& found : numbers) {
    greatest = std::max(greatest, found.second);
  }
  if (greatest < least || greatest > most) {
    fprintf(stderr, "thread %d: the last write is %lu, and not from %lu to %lu\n", thread, greatest, least, most);
    exit(1);
  }
  for (uint64_t number = greatest > kKeys ? greatest - kKeys + 1 : 1; number <= greatest; ++number) {
    const auto found = numbers.find(number % kKeys);
    if (found == numbers.end() || found->second != number) {
      fprintf(stderr, "thread %d: write %lu is lost: its key has %lu, the last write is %lu\n", thread, number,
              found == numbers.end() ? 0 : found->second, greatest);
      exit(1);
    }
  }
}

void Check(DB* db, char** bounds) {
  std::map<uint64_t, uint64_t> numbers[kThreads];
  std::unique_ptr<Iterator> iterator(db->NewIterator(ReadOptions()));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const std::string key = iterator->key().ToString();
    const int thread = key[0] - '0';
    const uint64_t number = strtoull(iterator->value().ToString().c_str(), nullptr, 10);
    if (thread < 0 || thread >= kThreads || key != Key(thread, number) || iterator->value() != Value(thread, number)) {
      fprintf(stderr, "key %s has a wrong value of %lu\n", key.c_str(), number);
      exit(1);
    }
    numbers[thread][number % kKeys] = number;
  }
  CheckOk(iterator->status(), "iterate");
  CheckOk(db->VerifyChecksum(), "verify");
  for (int thread = 0; thread < kThreads; ++thread) {
    CheckThread(thread, numbers[thread], strtoull(bounds[2 * thread], nullptr, 10),
                strtoull(bounds[2 * thread + 1], nullptr, 10));
  }
  std::vector<LiveFileMetaData> tables;
  db->GetLiveFilesMetaData(&tables);
  printf("%zu keys in %zu tables\n", numbers[0].size() + numbers[1].size(), tables.size());
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 2 ? arguments[1] : "";
  Env* env = nullptr;
  if (mode == "write" && count == 3) {
    if (arguments[2] == std::string("-")) {
      env = Env::Default();
    } else {
      CheckOk(NewColdstreamEnv(arguments[2], &env), "make the environment");
    }
    Write(env);
  } else if (mode == "check" && count == 4 + 2 * kThreads) {
    CheckOk(NewColdstreamEnv(arguments[2], &env), "make the environment");
    // The recovery writes tables, too. What it made of the database is there without the plugin.
    Check(OpenAfterCrash(env, arguments[3]).get(), arguments + 4);
    Check(Open(Env::Default(), arguments[3]).get(), arguments + 4);
  } else {
    fprintf(stderr, "usage: crash_database write OPTIONS | check OPTIONS DIR LEAST MOST LEAST MOST\n");
    return 2;
  }
  return 0;
}
