// Builds the data set that all runs of a case start from, and checks options before.

#include "clock.h"
#include "commands.h"
#include "content.h"
#include "database.h"
#include "engine.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace driver {
namespace {

// Opens a database and writes to it as fast as it accepts writes, without a log if that is possible.
class Loader {
 public:
  Loader(const Engine& engine, const DatabaseParameters& parameters, const char* more_options)
      : engine_(engine),
        content_(parameters.value_bytes),
        options_(engine, parameters.options + more_options),
        database_(engine, options_.Get(), parameters.directory),
        write_(engine.writeoptions_create()) {
    WithoutLog(engine, write_);
  }

  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  ~Loader() { engine_.writeoptions_destroy(write_); }

  void Put(uint64_t number, uint64_t version) {
    database_.Put(write_, content_, number, version, value_);
  }

  void FlushMemtable() { Flush(database_); }

  void CompactAll() {
    database_.CompactEverything();
    CheckBackground(database_);
  }

  // Returns when no compaction runs and none is due.
  void WaitForCompactions() {
    while (IsCompacting(database_)) {
      CheckBackground(database_);
      SleepUntil(NowNs() + 50000000u);
    }
  }

 private:
  const Engine& engine_;
  Content content_;
  Options options_;
  Database database_;
  EngineWriteOptions* write_;
  std::vector<uint64_t> value_;
};

// Writes every key once per sorted run. The first run is compacted to the last level. The others
// stay above it and overlap it wholly.
void LoadSortedRuns(const Engine& engine, const LoadParameters& parameters) {
  const uint64_t keys = parameters.database.keys;
  Loader loader(engine, parameters.database, kForSortedRuns);
  for (uint64_t run = 0; run < parameters.sorted_runs; ++run) {
    for (uint64_t number = 0; number < keys; ++number) {
      loader.Put(number, run);
      if (number % 50000 == 0) {
        std::fprintf(stderr, "loading: run %" PRIu64 " of %" PRIu64 ", %" PRIu64 " %%\n", run + 1,
                     parameters.sorted_runs, number * 100 / keys);
      }
    }
    loader.FlushMemtable();
    if (run == 0) loader.CompactAll();
  }
}

// Rewrites uniformly chosen keys. The engine's own compactions then bring the levels into the shape
// that they have in the long run.
void UpdateUniformly(const Engine& engine, const LoadParameters& parameters) {
  Loader loader(engine, parameters.database, "");
  uint64_t state = 1;
  for (uint64_t update = 0; update < parameters.updates; ++update) {
    loader.Put(Mix(state) % parameters.database.keys, parameters.sorted_runs + update);
  }
  loader.FlushMemtable();
  loader.WaitForCompactions();
}

}  // namespace

int CheckOptions(const OptionsParameters& parameters) {
  const Engine engine(parameters.library);
  const Options options(engine, parameters.options);
  std::puts(EngineVersion(engine).c_str());
  return 0;
}

int Load(const LoadParameters& parameters) {
  const Engine engine(parameters.database.library);
  LoadSortedRuns(engine, parameters);
  if (parameters.updates != 0) UpdateUniformly(engine, parameters);
  return 0;
}

}  // namespace driver
