// RocksDB's options and databases as objects that clean up behind themselves.

#pragma once

#include "api.h"
#include "content.h"
#include "fail.h"

#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace driver {

// Ends the driver if a call of the C API has left an error.
inline void Check(const Engine& engine, const char* what, char* error) {
  if (error != nullptr) {
    std::string text = error;
    engine.rocksdb_free(error);
    Fail(kExitEngine, "%s: %s", what, text.c_str());
  }
}

// Options of a database. They must live until it is closed.
class Options {
 public:
  // Reads RocksDB's own option string.
  Options(const Engine& engine, const std::string& text)
      : engine_(engine), options_(engine.rocksdb_options_create()) {
    rocksdb_options_t* base = engine.rocksdb_options_create();
    char* error = nullptr;
    engine.rocksdb_get_options_from_string(base, text.c_str(), options_, &error);
    Check(engine, ("options \"" + text + "\"").c_str(), error);
    engine.rocksdb_options_destroy(base);
  }

  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;

  ~Options() {
    engine_.rocksdb_options_destroy(options_);
    if (limiter_ != nullptr) engine_.rocksdb_ratelimiter_destroy(limiter_);
  }

  void EnableStatistics() { engine_.rocksdb_options_enable_statistics(options_); }

  // Limits the writes of flushes and compactions. To be called once.
  void LimitRate(uint64_t bytes_per_second) {
    limiter_ =
        engine_.rocksdb_ratelimiter_create(static_cast<int64_t>(bytes_per_second), 100000, 10);
    engine_.rocksdb_options_set_ratelimiter(options_, limiter_);
  }

  // The engine's statistics as text.
  std::string Statistics() const {
    char* text = engine_.rocksdb_options_statistics_get_string(options_);
    const std::string statistics = text == nullptr ? "" : text;
    engine_.rocksdb_free(text);
    return statistics;
  }

  const rocksdb_options_t* Get() const { return options_; }

 private:
  const Engine& engine_;
  rocksdb_options_t* options_;
  rocksdb_ratelimiter_t* limiter_ = nullptr;
};

// An open database.
class Database {
 public:
  Database(const Engine& engine, const Options& options, const std::string& path)
      : engine_(engine) {
    char* error = nullptr;
    database_ = engine.rocksdb_open(options.Get(), path.c_str(), &error);
    Check(engine, ("open " + path).c_str(), error);
  }

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  ~Database() { engine_.rocksdb_close(database_); }

  const Engine& Api() const { return engine_; }
  rocksdb_t* Get() const { return database_; }

  uint64_t Property(const char* name) const {
    uint64_t value = 0;
    if (engine_.rocksdb_property_int(database_, name, &value) != 0) RefuseProperty(name);
    return value;
  }

  // A property that the engine tells as text only, such as `rocksdb.num-files-at-level0`.
  uint64_t TextProperty(const char* name) const {
    char* text = engine_.rocksdb_property_value(database_, name);
    if (text == nullptr) RefuseProperty(name);
    const uint64_t value = std::strtoull(text, nullptr, 10);
    engine_.rocksdb_free(text);
    return value;
  }

  // The engine's estimate of the bytes that compaction has to rewrite.
  uint64_t DebtBytes() const { return Property("rocksdb.estimate-pending-compaction-bytes"); }

  // Ends the driver if a flush or a compaction has failed. A failed compaction leaves the old SSTables
  // as they are, so nothing else shows it.
  void CheckBackground() const {
    const uint64_t errors = Property("rocksdb.background-errors");
    if (errors != 0) {
      Fail(kExitEngine, "%" PRIu64 " flushes or compactions have failed: see the database's LOG",
           errors);
    }
  }

  void CompactEverything() const {
    engine_.rocksdb_compact_range(database_, nullptr, 0, nullptr, 0);
    CheckBackground();
  }

  // Writes one version of a value. `value` is a buffer that the caller keeps for the next call.
  void Put(const rocksdb_writeoptions_t* write, const Content& content, uint64_t number,
           uint64_t version, std::vector<uint64_t>& value) const {
    content.Fill(number, version, value);
    const std::string key = Content::Key(number);
    char* error = nullptr;
    engine_.rocksdb_put(database_, write, key.data(), key.size(),
                        reinterpret_cast<const char*>(value.data()), content.ValueBytes(), &error);
    Check(engine_, "put", error);
  }

 private:
  [[noreturn]] static void RefuseProperty(const char* name) {
    Fail(kExitEngine, "this RocksDB has no property %s", name);
  }

  const Engine& engine_;
  rocksdb_t* database_ = nullptr;
};

}  // namespace driver
