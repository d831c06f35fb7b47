// LevelDB: its options, and what it tells of itself.

#pragma once

#include "../database.h"
#include "../fail.h"
#include "../loaded_engine.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace driver {

// Behind the options, for a data set. LevelDB compacts whenever it wants to: sorted runs do not stay apart.
inline constexpr char kForSortedRuns[] = ";create_if_missing=1";

// Behind the options, for a run with one compaction of everything.
inline constexpr char kWithoutCompactions[] = "";

inline std::string EngineVersion(const Engine& engine) {
  return std::to_string(engine.major_version()) + "." + std::to_string(engine.minor_version());
}

// Options of a database. They must live until it is closed.
class Options {
 public:
  // Reads `name=value;name=value`. LevelDB has no such form of its own: these are the names of its C++
  // API, and `cache_size` and `bloom_bits` for the two that are objects there.
  Options(const Engine& engine, const std::string& text)
      : engine_(engine), options_(engine.options_create()) {
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ';');) {
      if (part.empty()) continue;
      const size_t equals = part.find('=');
      if (equals == std::string::npos) Fail(kExitEngine, "option \"%s\" has no value", part.c_str());
      Set(part.substr(0, equals), Number(part, part.substr(equals + 1)));
    }
    if (cache_ != nullptr) engine.options_set_cache(options_, cache_);
    if (filter_ != nullptr) engine.options_set_filter_policy(options_, filter_);
  }

  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  ~Options() {
    engine_.options_destroy(options_);
    ForgetCache();
    ForgetFilter();
  }

  // LevelDB counts all the time.
  void EnableStatistics() {}

  void LimitRate(uint64_t) { Fail(kExitUsage, "LevelDB cannot limit the rate of its compactions"); }

  const EngineOptions* Get() const { return options_; }

 private:
  static size_t Number(const std::string& part, const std::string& value) {
    char* end = nullptr;
    errno = 0;
    const unsigned long long number = std::strtoull(value.c_str(), &end, 10);
    if (value.empty() || value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0) {
      Fail(kExitEngine, "option \"%s\": its value is a whole number", part.c_str());
    }
    return number;
  }

  void Set(const std::string& name, size_t value) {
    if (name == "create_if_missing") {
      engine_.options_set_create_if_missing(options_, value != 0);
    } else if (name == "write_buffer_size") {
      engine_.options_set_write_buffer_size(options_, value);
    } else if (name == "max_file_size") {
      engine_.options_set_max_file_size(options_, value);
    } else if (name == "max_open_files") {
      engine_.options_set_max_open_files(options_, static_cast<int>(value));
    } else if (name == "block_size") {
      engine_.options_set_block_size(options_, value);
    } else if (name == "compression") {
      engine_.options_set_compression(options_, static_cast<int>(value));
    } else if (name == "cache_size") {
      ForgetCache();
      cache_ = engine_.cache_create_lru(value);
    } else if (name == "bloom_bits") {
      ForgetFilter();
      if (value != 0) filter_ = engine_.filterpolicy_create_bloom(static_cast<int>(value));
    } else {
      Fail(kExitEngine, "LevelDB's C API has no option %s", name.c_str());
    }
  }

  void ForgetCache() {
    if (cache_ != nullptr) engine_.cache_destroy(cache_);
    cache_ = nullptr;
  }

  void ForgetFilter() {
    if (filter_ != nullptr) engine_.filterpolicy_destroy(filter_);
    filter_ = nullptr;
  }

  const Engine& engine_;
  EngineOptions* options_;
  leveldb_cache_t* cache_ = nullptr;
  leveldb_filterpolicy_t* filter_ = nullptr;
};

// LevelDB always writes its log.
inline void WithoutLog(const Engine&, EngineWriteOptions*) {}

inline uint64_t Level0Files(const Database& database) {
  return std::strtoull(database.Property("leveldb.num-files-at-level0").c_str(), nullptr, 10);
}

// A line of the property `leveldb.stats` (db/db_impl.cc, DBImpl::GetProperty). LevelDB rounds to whole MiB.
struct LevelStats {
  int level;
  int files;
  uint64_t bytes;
  uint64_t read_bytes;
  uint64_t written_bytes;
};

// Calls `visit` for each level that has SSTables or had a compaction.
template <typename Visit>
void EachLevel(const Database& database, Visit visit) {
  std::istringstream lines(database.Property("leveldb.stats"));
  for (std::string line; std::getline(lines, line);) {
    int level = 0, files = 0;
    double size = 0, seconds = 0, read = 0, written = 0;
    if (std::sscanf(line.c_str(), "%d %d %lf %lf %lf %lf", &level, &files, &size, &seconds, &read,
                    &written) == 6) {
      const auto bytes = [](double mib) { return static_cast<uint64_t>(mib) << 20; };
      visit(LevelStats{level, files, bytes(size), bytes(read), bytes(written)});
    }
  }
}

// What compaction has to rewrite: the bytes of each level above its limit (db/version_set.cc: four SSTables
// in level 0, 10 MiB in level 1, ten times as much in each further one). LevelDB tells no estimate.
inline uint64_t DebtBytes(const Database& database) {
  constexpr int kLastLevel = 6;
  constexpr int kLevel0Trigger = 4;
  uint64_t debt_bytes = 0;
  EachLevel(database, [&debt_bytes](const LevelStats& stats) {
    if (stats.level == 0) {
      if (stats.files >= kLevel0Trigger) debt_bytes += stats.bytes;
      return;
    }
    uint64_t limit_bytes = 10u << 20;
    for (int level = 1; level < stats.level; ++level) limit_bytes *= 10;
    if (stats.level < kLastLevel && stats.bytes > limit_bytes) {
      debt_bytes += stats.bytes - limit_bytes;
    }
  });
  return debt_bytes;
}

// A failed flush or compaction fails the next put.
inline void CheckBackground(const Database&) {}

// Compacting a range that has no key flushes the memtable, and does nothing else.
inline void Flush(const Database& database) {
  const std::string behind_all = "~";
  database.Api().compact_range(database.Get(), behind_all.data(), behind_all.size(),
                               behind_all.data(), behind_all.size());
}

// Whether a compaction is due. It is while one runs.
inline bool IsCompacting(const Database& database) { return DebtBytes(database) != 0; }

// What was counted since the database was opened. LevelDB adds flushes to what compaction wrote. They
// write what the user wrote, so that is taken off again.
inline Tickers Count(const Database& database, const Options&) {
  Tickers tickers{0, 0, database.PutBytes(), database.SlowPutUs()};
  EachLevel(database, [&tickers](const LevelStats& stats) {
    tickers.compaction_read_bytes += stats.read_bytes;
    tickers.compaction_written_bytes += stats.written_bytes;
  });
  tickers.compaction_written_bytes -= std::min(tickers.compaction_written_bytes, tickers.user_bytes);
  return tickers;
}

}  // namespace driver
