// An open database, as an object that cleans up behind itself.

#pragma once

#include "clock.h"
#include "content.h"
#include "fail.h"
#include "loaded_engine.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace driver {

// Ends the driver if a call of the C API has left an error.
inline void Check(const Engine& engine, const char* what, char* error) {
  if (error != nullptr) {
    std::string text = error;
    engine.free(error);
    Fail(kExitEngine, "%s: %s", what, text.c_str());
  }
}

// What an engine has counted.
struct Tickers {
  uint64_t compaction_read_bytes;
  uint64_t compaction_written_bytes;
  uint64_t user_bytes;
  // Time for which writes were delayed.
  uint64_t stall_us;
};

class Database {
 public:
  Database(const Engine& engine, const EngineOptions* options, const std::string& path)
      : engine_(engine) {
    char* error = nullptr;
    database_ = engine.open(options, path.c_str(), &error);
    Check(engine, ("open " + path).c_str(), error);
  }

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  ~Database() { engine_.close(database_); }

  const Engine& Api() const { return engine_; }
  EngineDatabase* Get() const { return database_; }

  // A property as text.
  std::string Property(const char* name) const {
    char* text = engine_.property_value(database_, name);
    if (text == nullptr) Fail(kExitEngine, "this " ENGINE_NAME " has no property %s", name);
    const std::string property = text;
    engine_.free(text);
    return property;
  }

  void CompactEverything() const { engine_.compact_range(database_, nullptr, 0, nullptr, 0); }

  // Writes one version of a value. `value` is a buffer that the caller keeps for the next call.
  void Put(const EngineWriteOptions* write, const Content& content, uint64_t number,
           uint64_t version, std::vector<uint64_t>& value) {
    content.Fill(number, version, value);
    const std::string key = Content::Key(number);
    const uint64_t begin_ns = NowNs();
    char* error = nullptr;
    engine_.put(database_, write, key.data(), key.size(),
                reinterpret_cast<const char*>(value.data()), content.ValueBytes(), &error);
    Check(engine_, "put", error);
    put_bytes_ += key.size() + content.ValueBytes();
    const uint64_t taken_ns = NowNs() - begin_ns;
    if (taken_ns >= kSlowPutNs) slow_put_ns_ += taken_ns;
  }

  // Bytes of the keys and values that were put.
  uint64_t PutBytes() const { return put_bytes_.load(); }

  // The time of all puts that took a millisecond or more: so long LevelDB delays one at least.
  uint64_t SlowPutUs() const { return slow_put_ns_.load() / 1000; }

 private:
  static constexpr uint64_t kSlowPutNs = 1000000;

  const Engine& engine_;
  EngineDatabase* database_ = nullptr;
  std::atomic<uint64_t> put_bytes_{0};
  std::atomic<uint64_t> slow_put_ns_{0};
};

}  // namespace driver
