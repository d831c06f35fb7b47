// Builds the data set that all runs of a case start from.

#include "clock.h"
#include "commands.h"
#include "content.h"
#include "engine.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace driver {
namespace {

// Opens a database to be loaded, and writes to it as fast as it takes it.
class Loader {
 public:
  Loader(const Engine& engine, const Arguments& arguments, const char* more_options)
      : engine_(engine),
        content_(arguments.Count("value-bytes")),
        options_(engine, arguments.Text("options") + more_options),
        database_(engine, options_, arguments.Text("db")),
        write_(engine.rocksdb_writeoptions_create()) {
    engine.rocksdb_writeoptions_disable_WAL(write_, 1);
  }

  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  ~Loader() { engine_.rocksdb_writeoptions_destroy(write_); }

  void Put(uint64_t number, uint64_t version) {
    database_.Put(write_, content_, number, version, value_);
  }

  void Flush() {
    rocksdb_flushoptions_t* flush = engine_.rocksdb_flushoptions_create();
    char* error = nullptr;
    engine_.rocksdb_flush(database_.Get(), flush, &error);
    Check(engine_, "flush", error);
    engine_.rocksdb_flushoptions_destroy(flush);
  }

  void CompactEverything() { database_.CompactEverything(); }

  // Until no compaction runs and none is due.
  void WaitForCompactions() {
    while (database_.Property("rocksdb.num-running-compactions") != 0 ||
           database_.Property("rocksdb.compaction-pending") != 0) {
      database_.CheckBackground();
      SleepUntil(NowNs() + 50000000u);
    }
  }

 private:
  const Engine& engine_;
  Content content_;
  Options options_;
  Database database_;
  rocksdb_writeoptions_t* write_;
  std::vector<uint64_t> value_;
};

}  // namespace

// Writes every key `sorted-runs` times, each time a sorted run of its own: the first is compacted
// to the last level, the others stay above it and overlap it wholly. Then rewrites `updates`
// uniformly chosen keys, and lets the engine bring its levels into the shape that they have in the
// long run.
int Load(const Arguments& arguments) {
  Engine engine(arguments.Text("library"));
  const uint64_t keys = arguments.Count("keys");
  const uint64_t runs = arguments.Count("sorted-runs");
  {
    Loader loader(engine, arguments,
                  ";create_if_missing=true;disable_auto_compactions=true"
                  ";level0_slowdown_writes_trigger=1000;level0_stop_writes_trigger=1000");
    for (uint64_t run = 0; run < runs; ++run) {
      for (uint64_t number = 0; number < keys; ++number) {
        loader.Put(number, run);
        if (number % 50000 == 0) {
          std::fprintf(stderr, "loading: run %" PRIu64 " of %" PRIu64 ", %" PRIu64 " %%\n", run + 1,
                       runs, number * 100 / keys);
        }
      }
      loader.Flush();
      if (run == 0) loader.CompactEverything();
    }
  }
  if (const uint64_t updates = arguments.Count("updates"); updates != 0) {
    Loader loader(engine, arguments, "");
    uint64_t state = 1;
    for (uint64_t update = 0; update < updates; ++update) {
      loader.Put(Mix(state) % keys, runs + update);
    }
    loader.Flush();
    loader.WaitForCompactions();
  }
  return 0;
}

}  // namespace driver
