// One run of a case: readers, and a compaction beside them.

#include "clock.h"
#include "commands.h"
#include "content.h"
#include "engine.h"
#include "fail.h"
#include "load_threads.h"
#include "pages.h"
#include "records.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace driver {
namespace {

// The value behind `rocksdb.compact.read.bytes COUNT : ` of the engine's statistics.
uint64_t Ticker(const std::string& statistics, const char* name) {
  std::string wanted = std::string(name) + " COUNT : ";
  size_t place = statistics.find(wanted);
  if (place == std::string::npos) return 0;
  return std::strtoull(statistics.c_str() + place + wanted.size(), nullptr, 10);
}

// What the engine has counted since it was opened.
struct Tickers {
  explicit Tickers(const Options& options) : Tickers(options.Statistics()) {}

  uint64_t compaction_read_bytes;
  uint64_t compaction_written_bytes;
  uint64_t user_bytes;
  uint64_t stall_us;

  // Adds what was counted since `earlier`.
  void AddSince(const Tickers& earlier, Output& output) const {
    output.Add(Record::CompactedBytes(compaction_read_bytes - earlier.compaction_read_bytes,
                                      compaction_written_bytes - earlier.compaction_written_bytes));
    output.Add(Record::Written(user_bytes - earlier.user_bytes, stall_us - earlier.stall_us));
  }

 private:
  explicit Tickers(const std::string& statistics)
      : compaction_read_bytes(Ticker(statistics, "rocksdb.compact.read.bytes")),
        compaction_written_bytes(Ticker(statistics, "rocksdb.compact.write.bytes")),
        user_bytes(Ticker(statistics, "rocksdb.bytes.written")),
        stall_us(Ticker(statistics, "rocksdb.stall.micros")) {}
};

// Reads the whole database in order, and compares every value.
void Verify(const Database& database, const Content& content, uint64_t keys) {
  const Engine& engine = database.Api();
  rocksdb_readoptions_t* read = engine.rocksdb_readoptions_create();
  engine.rocksdb_readoptions_set_fill_cache(read, 0);
  rocksdb_iterator_t* iterator = engine.rocksdb_create_iterator(database.Get(), read);
  std::vector<uint64_t> scratch;
  uint64_t number = 0;
  for (engine.rocksdb_iter_seek_to_first(iterator); engine.rocksdb_iter_valid(iterator);
       engine.rocksdb_iter_next(iterator)) {
    size_t length = 0;
    const char* key = engine.rocksdb_iter_key(iterator, &length);
    if (std::string(key, length) != Content::Key(number)) {
      Fail(kExitVerification, "key %" PRIu64 " is missing", number);
    }
    const char* value = engine.rocksdb_iter_value(iterator, &length);
    if (!content.Matches(number, value, length, scratch)) {
      Fail(kExitVerification, "key %" PRIu64 " has a wrong value", number);
    }
    ++number;
  }
  char* error = nullptr;
  engine.rocksdb_iter_get_error(iterator, &error);
  Check(engine, "scan", error);
  if (number != keys) {
    Fail(kExitVerification, "%" PRIu64 " keys, %" PRIu64 " were written", number, keys);
  }
  engine.rocksdb_iter_destroy(iterator);
  engine.rocksdb_readoptions_destroy(read);
}

// The threads of a run, and the phases that it goes through.
class Phases {
 public:
  explicit Phases(Shared& shared) : shared_(shared) {
    shared_.output.Add(Record::PhaseBegin(kWarmUp, NowNs(), ClockNs(CLOCK_PROCESS_CPUTIME_ID), 0));
    for (uint64_t reader = 0; reader < shared_.parameters.readers; ++reader) {
      load_.emplace_back(Read, std::ref(shared_), reader);
    }
    writer_ = std::thread([this] {
      prctl(PR_SET_NAME, "records");
      while (!shared_.stop.load()) {
        SleepUntil(NowNs() + 100000000u);
        AddBacklog();
        shared_.output.Flush();
      }
    });
  }

  // Waits until every reader has ended its first pass.
  void WaitForFirstPasses() const {
    while (shared_.first_passes.load() < shared_.parameters.readers) {
      SleepUntil(NowNs() + 10000000u);
    }
  }

  void Enter(Phase phase) {
    uint64_t load_ns = 0;
    for (std::thread& thread : load_) {
      clockid_t clock;
      if (pthread_getcpuclockid(thread.native_handle(), &clock) == 0) load_ns += ClockNs(clock);
    }
    const uint64_t process_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID);
    shared_.phase.store(phase);
    shared_.output.Add(Record::PhaseBegin(phase, NowNs(), process_ns, load_ns));
  }

  static void Wait(double seconds) { SleepUntil(NowNs() + static_cast<uint64_t>(seconds * 1e9)); }

  // Compacts everything once.
  void CompactOnce() const { shared_.database.CompactEverything(); }

  // Updates keys, so that the engine compacts all the time, while the reads go through their steps.
  void CompactContinuously() {
    const RunParameters& parameters = shared_.parameters;
    load_.emplace_back(Update, std::ref(shared_));
    const double steps = static_cast<double>(parameters.load_steps.size());
    for (uint64_t step : parameters.load_steps) {
      shared_.reads_per_second.store(static_cast<double>(step));
      Wait(parameters.compaction_seconds / steps);
    }
    shared_.reads_per_second.store(static_cast<double>(parameters.reads_per_second));
    shared_.database.CheckBackground();
    shared_.output.Add(Record::Updates(
        shared_.updates.load(), shared_.update_late_ns.load(), shared_.database.DebtBytes()));
  }

  // Ends all threads.
  void Stop() {
    shared_.stop.store(true);
    for (std::thread& thread : load_) thread.join();
    writer_.join();
  }

 private:
  // How far compaction is behind now. Both properties are counters in memory.
  void AddBacklog() {
    const Phase phase = shared_.phase.load();
    const uint64_t level0_files = shared_.database.TextProperty("rocksdb.num-files-at-level0");
    shared_.output.Add(Record::Backlog(phase, level0_files, shared_.database.DebtBytes()));
  }

  Shared& shared_;
  // Threads that make the load.
  std::vector<std::thread> load_;
  // Writes the records, and samples the backlog between.
  std::thread writer_;
};

}  // namespace

int Run(const RunParameters& parameters) {
  const Engine engine(parameters.database.library);
  const Content content(parameters.database.value_bytes);
  const std::string& path = parameters.database.directory;
  const bool continuous = parameters.update_bytes_per_second > 0;
  DropPages(path);
  if (parameters.start == Start::kWarm) WarmPages(path);
  Options options(engine, parameters.database.options +
                              (continuous ? "" : ";disable_auto_compactions=true"));
  options.EnableStatistics();
  if (parameters.compaction_bytes_per_second > 0) {
    options.LimitRate(parameters.compaction_bytes_per_second);
  }
  const Database database(engine, options, path);
  Shared shared{parameters, database, content, HotKeys(parameters),
                {static_cast<double>(parameters.reads_per_second)}};

  Phases phases(shared);
  phases.WaitForFirstPasses();
  Phases::Wait(parameters.warm_up_seconds);
  phases.Enter(kIdle);
  Phases::Wait(parameters.idle_seconds);
  const Tickers before(options);
  phases.Enter(kCompaction);
  if (continuous) {
    phases.CompactContinuously();
  } else {
    phases.CompactOnce();
  }
  Tickers(options).AddSince(before, shared.output);
  phases.Enter(kAfter);
  Phases::Wait(parameters.after_seconds);
  phases.Enter(kEnded);
  phases.Stop();

  if (parameters.verify) Verify(database, content, parameters.database.keys);
  shared.output.Flush();
  return 0;
}

}  // namespace driver
