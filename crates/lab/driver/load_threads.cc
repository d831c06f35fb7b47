#include "load_threads.h"

#include "clock.h"
#include "fail.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace driver {
namespace {

// Writes that a stalled writer of a closed loop makes up for, as a time. db_bench's rate limiter
// allows as much: it hands out a tenth of a second's bytes at once, and keeps none of them.
constexpr double kClosedLoopBacklogNs = 1e8;

// Records that a reader collects before it takes the output's lock.
constexpr size_t kRecordsPerBatch = 256;

// Reads a key and compares its value. Returns the times of begin and end.
std::pair<uint64_t, uint64_t> ReadOne(const Shared& shared, const EngineReadOptions* options,
                                      uint64_t number, std::vector<uint64_t>& scratch) {
  const Engine& engine = shared.database.Api();
  std::string key = Content::Key(number);
  uint64_t begin_ns = NowNs();
  size_t length = 0;
  char* error = nullptr;
  char* value = engine.get(shared.database.Get(), options, key.data(), key.size(), &length,
                                   &error);
  uint64_t end_ns = NowNs();
  Check(engine, "get", error);
  if (value == nullptr || !shared.content.Matches(number, value, length, scratch)) {
    Fail(kExitVerification, "key %" PRIu64 " has a wrong value", number);
  }
  engine.free(value);
  return {begin_ns, end_ns};
}

// Reads this reader's share of the hot keys once, in random order. Without it the idle phase would
// consist of first reads to a good part: after as many random reads as there are keys, one key in e
// has not been read. Returns how many keys it has read in its time.
uint64_t FirstPass(const Shared& shared, const EngineReadOptions* options, uint64_t reader,
                   uint64_t& state, std::vector<uint64_t>& scratch) {
  const uint64_t end_ns = NowNs() + static_cast<uint64_t>(shared.parameters.first_pass_seconds * 1e9);
  std::vector<uint64_t> share;
  for (uint64_t hot = reader; hot < shared.hot_keys.Count(); hot += shared.parameters.readers) {
    share.push_back(hot);
  }
  for (size_t left = share.size(); left > 1; --left) {
    std::swap(share[left - 1], share[Mix(state) % left]);
  }
  uint64_t read = 0;
  for (uint64_t hot : share) {
    if (NowNs() >= end_ns) break;
    ReadOne(shared, options, shared.hot_keys.Number(hot), scratch);
    ++read;
  }
  return read;
}

// The times at which a reader's reads are due.
class DueTimes {
 public:
  explicit DueTimes(const Shared& shared)
      : shared_(shared),
        readers_(static_cast<double>(shared.parameters.readers)),
        due_ns_(static_cast<double>(NowNs())) {}

  // Waits until the next read is due, and returns that time. In a closed loop it returns at once,
  // without a time: a read is due when the one before it has its answer.
  std::optional<uint64_t> Wait(uint64_t& state) {
    if (shared_.parameters.loop == Loop::kClosed) return std::nullopt;
    const double uniform = static_cast<double>(Mix(state) >> 11) / 9007199254740992.0;
    due_ns_ -= std::log1p(-uniform) * MeanGapNs();
    const uint64_t due_ns = static_cast<uint64_t>(due_ns_);
    SleepUntil(due_ns);
    return due_ns;
  }

  // The reads that are due by now and were not started. They are counted, not drawn: there may be
  // millions. There are none in a closed loop.
  std::optional<Record> Unstarted() const {
    if (shared_.parameters.loop == Loop::kClosed) return std::nullopt;
    const uint64_t now_ns = NowNs();
    const double late_ns = std::max(static_cast<double>(now_ns) - due_ns_, 0.0);
    const uint64_t reads = static_cast<uint64_t>(late_ns / MeanGapNs());
    if (reads == 0) return std::nullopt;
    return Record::Unstarted(static_cast<uint64_t>(due_ns_), reads, now_ns);
  }

 private:
  double MeanGapNs() const {
    return 1e9 * readers_ / shared_.reads_per_second.load(std::memory_order_relaxed);
  }

  const Shared& shared_;
  const double readers_;
  double due_ns_;
};

}  // namespace

void Read(Shared& shared, uint64_t reader) {
  prctl(PR_SET_NAME, "reader");
  prctl(PR_SET_TIMERSLACK, 1);
  const HotKeys& hot_keys = shared.hot_keys;
  const Engine& engine = shared.database.Api();
  uint64_t state = shared.parameters.seed * 7919 + reader;
  EngineReadOptions* options = engine.readoptions_create();
  std::vector<uint64_t> scratch;
  std::vector<Record> records;
  shared.first_pass_keys.fetch_add(FirstPass(shared, options, reader, state, scratch));
  shared.first_passes.fetch_add(1);
  DueTimes due_times(shared);
  while (!shared.stop.load(std::memory_order_relaxed)) {
    const std::optional<uint64_t> due_ns = due_times.Wait(state);
    const uint64_t number = hot_keys.Number(Mix(state) % hot_keys.Count());
    const auto [begin_ns, end_ns] = ReadOne(shared, options, number, scratch);
    records.push_back(Record::Read(due_ns.value_or(begin_ns), begin_ns, end_ns));
    if (records.size() >= kRecordsPerBatch) {
      shared.output.Add(records);
      records.clear();
    }
  }
  if (const std::optional<Record> unstarted = due_times.Unstarted()) records.push_back(*unstarted);
  shared.output.Add(records);
  engine.readoptions_destroy(options);
}

void Update(Shared& shared) {
  prctl(PR_SET_NAME, "updater");
  const uint64_t keys = shared.parameters.database.keys;
  const double bytes_per_second = static_cast<double>(shared.parameters.update_bytes_per_second);
  const bool closed = shared.parameters.loop == Loop::kClosed;
  const Engine& engine = shared.database.Api();
  EngineWriteOptions* write = engine.writeoptions_create();
  std::vector<uint64_t> value;
  uint64_t state = shared.parameters.seed + 17;
  uint64_t version = uint64_t{1} << 32;  // Higher than any version of the loaded data set.
  double due_ns = static_cast<double>(NowNs());
  const double gap_ns = 1e9 * static_cast<double>(shared.content.ValueBytes()) / bytes_per_second;
  while (!shared.stop.load(std::memory_order_relaxed) && shared.phase.load() < kAfter) {
    due_ns += gap_ns;
    SleepUntil(static_cast<uint64_t>(due_ns));
    const double now_ns = static_cast<double>(NowNs());
    const uint64_t late_ns = static_cast<uint64_t>(std::max(now_ns - due_ns, 0.0));
    if (closed) due_ns = std::max(due_ns, now_ns - kClosedLoopBacklogNs);
    if (late_ns > shared.update_late_ns.load()) shared.update_late_ns.store(late_ns);
    shared.database.Put(write, shared.content, Mix(state) % keys, ++version, value);
    shared.updates.fetch_add(1);
  }
  engine.writeoptions_destroy(write);
}

}  // namespace driver
