// RocksDB: its options, and what it tells of itself.

#pragma once

#include "../database.h"
#include "../fail.h"
#include "../loaded_engine.h"

#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace driver {

// Behind the options, for a data set of sorted runs: compactions only when they are asked for.
inline constexpr char kForSortedRuns[] =
    ";create_if_missing=true;disable_auto_compactions=true"
    ";level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000";

// Behind the options, for a run with one compaction of everything.
inline constexpr char kWithoutCompactions[] = ";disable_auto_compactions=true";

// Its C API does not tell it. The laboratory reads it in the database's LOG.
inline std::string EngineVersion(const Engine&) { return ""; }

// Options of a database. They must live until it is closed.
class Options {
 public:
  // Reads RocksDB's own option string.
  Options(const Engine& engine, const std::string& text)
      : engine_(engine), options_(engine.options_create()) {
    EngineOptions* base = engine.options_create();
    char* error = nullptr;
    engine.get_options_from_string(base, text.c_str(), options_, &error);
    Check(engine, ("options \"" + text + "\"").c_str(), error);
    engine.options_destroy(base);
  }

  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  ~Options() {
    engine_.options_destroy(options_);
    if (limiter_ != nullptr) engine_.ratelimiter_destroy(limiter_);
  }

  void EnableStatistics() { engine_.options_enable_statistics(options_); }

  // Limits the writes of flushes and compactions. To be called once.
  void LimitRate(uint64_t bytes_per_second) {
    limiter_ = engine_.ratelimiter_create(static_cast<int64_t>(bytes_per_second), 100000, 10);
    engine_.options_set_ratelimiter(options_, limiter_);
  }

  // The engine's statistics as text.
  std::string Statistics() const {
    char* text = engine_.options_statistics_get_string(options_);
    const std::string statistics = text == nullptr ? "" : text;
    engine_.free(text);
    return statistics;
  }

  const EngineOptions* Get() const { return options_; }

 private:
  const Engine& engine_;
  EngineOptions* options_;
  rocksdb_ratelimiter_t* limiter_ = nullptr;
};

inline void WithoutLog(const Engine& engine, EngineWriteOptions* write) {
  engine.writeoptions_disable_WAL(write, 1);
}

inline uint64_t Property(const Database& database, const char* name) {
  uint64_t value = 0;
  if (database.Api().property_int(database.Get(), name, &value) != 0) {
    Fail(kExitEngine, "this RocksDB has no property %s", name);
  }
  return value;
}

inline uint64_t Level0Files(const Database& database) {
  return std::strtoull(database.Property("rocksdb.num-files-at-level0").c_str(), nullptr, 10);
}

// The engine's estimate of the bytes that compaction has to rewrite.
inline uint64_t DebtBytes(const Database& database) {
  return Property(database, "rocksdb.estimate-pending-compaction-bytes");
}

// Ends the driver if a flush or a compaction has failed. A failed compaction leaves the old SSTables
// as they are, so nothing else shows it.
inline void CheckBackground(const Database& database) {
  const uint64_t errors = Property(database, "rocksdb.background-errors");
  if (errors != 0) {
    Fail(kExitEngine, "%" PRIu64 " flushes or compactions have failed: see the database's LOG",
         errors);
  }
}

inline void Flush(const Database& database) {
  const Engine& engine = database.Api();
  rocksdb_flushoptions_t* flush = engine.flushoptions_create();
  char* error = nullptr;
  engine.flush(database.Get(), flush, &error);
  Check(engine, "flush", error);
  engine.flushoptions_destroy(flush);
}

// Whether a compaction runs or is due.
inline bool IsCompacting(const Database& database) {
  return Property(database, "rocksdb.num-running-compactions") != 0 ||
         Property(database, "rocksdb.compaction-pending") != 0;
}

// What the engine has counted since the database was opened.
inline Tickers Count(const Database&, const Options& options) {
  const std::string statistics = options.Statistics();
  // The value behind `rocksdb.compact.read.bytes COUNT : `.
  const auto ticker = [&statistics](const char* name) -> uint64_t {
    const std::string wanted = std::string(name) + " COUNT : ";
    const size_t place = statistics.find(wanted);
    if (place == std::string::npos) return 0;
    return std::strtoull(statistics.c_str() + place + wanted.size(), nullptr, 10);
  };
  return {ticker("rocksdb.compact.read.bytes"), ticker("rocksdb.compact.write.bytes"),
          ticker("rocksdb.bytes.written"), ticker("rocksdb.stall.micros")};
}

}  // namespace driver
