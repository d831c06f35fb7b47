// One run of a case: readers, and a compaction beside them.

#include "clock.h"
#include "commands.h"
#include "content.h"
#include "database.h"
#include "engine.h"
#include "fail.h"
#include "load_threads.h"
#include "pages.h"
#include "records.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace driver {
namespace {

// The longest wait for the first compaction, if the phase is not shorter. Updates that are too slow for one are measured
// without it: the share of the time in which a compaction ran shows that.
constexpr uint64_t kFirstCompactionNs = 30'000'000'000u;

// Adds what was counted since `earlier`.
void AddSince(const Tickers& earlier, const Tickers& now, Output& output) {
  output.Add(Record::CompactedBytes(now.compaction_read_bytes - earlier.compaction_read_bytes,
                                    now.compaction_written_bytes - earlier.compaction_written_bytes));
  output.Add(Record::Written(now.user_bytes - earlier.user_bytes, now.stall_us - earlier.stall_us));
}

// Reads the whole database in order, and compares every value.
void Verify(const Database& database, const Content& content, uint64_t keys) {
  const Engine& engine = database.Api();
  EngineReadOptions* read = engine.readoptions_create();
  engine.readoptions_set_fill_cache(read, 0);
  EngineIterator* iterator = engine.create_iterator(database.Get(), read);
  std::vector<uint64_t> scratch;
  uint64_t number = 0;
  for (engine.iter_seek_to_first(iterator); engine.iter_valid(iterator);
       engine.iter_next(iterator)) {
    size_t length = 0;
    const char* key = engine.iter_key(iterator, &length);
    if (std::string(key, length) != Content::Key(number)) {
      Fail(kExitVerification, "key %" PRIu64 " is missing", number);
    }
    const char* value = engine.iter_value(iterator, &length);
    if (!content.Matches(number, value, length, scratch)) {
      Fail(kExitVerification, "key %" PRIu64 " has a wrong value", number);
    }
    ++number;
  }
  char* error = nullptr;
  engine.iter_get_error(iterator, &error);
  Check(engine, "scan", error);
  if (number != keys) {
    Fail(kExitVerification, "%" PRIu64 " keys, %" PRIu64 " were written", number, keys);
  }
  engine.iter_destroy(iterator);
  engine.readoptions_destroy(read);
}

// The threads of a run, and the phases that it goes through.
class Phases {
 public:
  explicit Phases(Shared& shared) : shared_(shared) {
    shared_.output.AddPhaseBegin(kWarmUp, ClockNs(CLOCK_PROCESS_CPUTIME_ID), 0);
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
    shared_.output.Add(
        Record::FirstPass(shared_.first_pass_keys.load(), shared_.hot_keys.Count()));
  }

  void Enter(Phase phase) {
    uint64_t load_ns = 0;
    for (std::thread& thread : load_) {
      clockid_t clock;
      if (pthread_getcpuclockid(thread.native_handle(), &clock) == 0) load_ns += ClockNs(clock);
    }
    const uint64_t process_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID);
    shared_.phase.store(phase);
    shared_.output.AddPhaseBegin(phase, process_ns, load_ns);
  }

  static void Wait(double seconds) { SleepUntil(NowNs() + static_cast<uint64_t>(seconds * 1e9)); }

  // Compacts everything once.
  void CompactOnce() const {
    shared_.database.CompactEverything();
    CheckBackground(shared_.database);
  }

  // Updates keys from now on. Waits for the first compaction: until then memtables fill, and nothing is measured.
  void StartUpdates() {
    Enter(kWarmUp);
    load_.emplace_back(Update, std::ref(shared_));
    const auto phase_ns = static_cast<uint64_t>(shared_.parameters.compaction_seconds * 1e9);
    const uint64_t end_ns = NowNs() + std::min(phase_ns, kFirstCompactionNs);
    while (!IsCompacting(shared_.database) && NowNs() < end_ns) Wait(0.01);
  }

  // The updates go on, so one compaction follows the other, while the reads go through their steps.
  void CompactContinuously() {
    const RunParameters& parameters = shared_.parameters;
    const uint64_t updates_before = shared_.updates.load();
    shared_.update_late_ns.store(0);
    const double steps = static_cast<double>(parameters.load_steps.size());
    for (uint64_t step : parameters.load_steps) {
      shared_.reads_per_second.store(static_cast<double>(step));
      Wait(parameters.compaction_seconds / steps);
    }
    shared_.reads_per_second.store(static_cast<double>(parameters.reads_per_second));
    CheckBackground(shared_.database);
    shared_.output.Add(Record::Updates(
        shared_.updates.load() - updates_before, shared_.update_late_ns.load(), DebtBytes(shared_.database)));
  }

  // Ends all threads.
  void Stop() {
    shared_.stop.store(true);
    for (std::thread& thread : load_) thread.join();
    writer_.join();
  }

 private:
  // How far compaction is behind now. The engine has all of it in memory.
  void AddBacklog() {
    const Phase phase = shared_.phase.load();
    const Database& database = shared_.database;
    shared_.output.Add(
        Record::Backlog(phase, Level0Files(database), DebtBytes(database), IsCompacting(database)));
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
                              (continuous ? "" : kWithoutCompactions));
  options.EnableStatistics();
  if (parameters.compaction_bytes_per_second > 0) {
    options.LimitRate(parameters.compaction_bytes_per_second);
  }
  Database database(engine, options.Get(), path);
  Shared shared{parameters, database, content, HotKeys(parameters),
                {static_cast<double>(parameters.reads_per_second)}};

  Phases phases(shared);
  phases.WaitForFirstPasses();
  Phases::Wait(parameters.warm_up_seconds);
  phases.Enter(kIdle);
  Phases::Wait(parameters.idle_seconds);
  if (continuous) phases.StartUpdates();
  const Tickers before = Count(database, options);
  phases.Enter(kCompaction);
  if (continuous) {
    phases.CompactContinuously();
  } else {
    phases.CompactOnce();
  }
  AddSince(before, Count(database, options), shared.output);
  phases.Enter(kAfter);
  Phases::Wait(parameters.after_seconds);
  phases.Enter(kEnded);
  phases.Stop();

  if (parameters.verify) Verify(database, content, parameters.database.keys);
  shared.output.Flush();
  return 0;
}

}  // namespace driver
