// One run of a case: readers in an open loop, and compaction beside them.

#include "clock.h"
#include "commands.h"
#include "content.h"
#include "engine.h"
#include "pages.h"
#include "records.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace driver {
namespace {

// The keys that are read.
class HotKeys {
 public:
  explicit HotKeys(const Arguments& arguments)
      : keys_(arguments.Count("keys")),
        count_(arguments.Count("hot-keys")),
        contiguous_(arguments.OneOf("hot-layout", "scattered", "contiguous") == "contiguous") {}

  uint64_t Count() const { return count_; }

  uint64_t Number(uint64_t hot) const {
    uint64_t number = contiguous_ ? keys_ / 3 + hot : hot * keys_ / count_ + keys_ / count_ / 2;
    return number % keys_;
  }

 private:
  uint64_t keys_;
  uint64_t count_;
  bool contiguous_;
};

struct Shared {
  const Database& database;
  const Content& content;
  const HotKeys& hot_keys;
  std::atomic<double> reads_per_second;
  Output output{};
  std::atomic<Phase> phase{kWarmUp};
  std::atomic<bool> stop{false};
  // Readers that have read each of their hot keys once.
  std::atomic<uint64_t> first_passes{0};
  std::atomic<uint64_t> updates{0};
  std::atomic<uint64_t> update_late_ns{0};
};

// Reads a key and compares its value; when that began and ended.
std::pair<uint64_t, uint64_t> ReadOne(const Shared& shared, const rocksdb_readoptions_t* options,
                                      uint64_t number, std::vector<uint64_t>& scratch) {
  const Engine& engine = shared.database.Api();
  std::string key = Content::Key(number);
  uint64_t begin_ns = NowNs();
  size_t length = 0;
  char* error = nullptr;
  char* value = engine.rocksdb_get(shared.database.Get(), options, key.data(), key.size(), &length,
                                   &error);
  uint64_t end_ns = NowNs();
  Check(engine, "get", error);
  if (value == nullptr || !shared.content.Matches(number, value, length, scratch)) {
    Fail(kExitVerification, "key %" PRIu64 " has a wrong value", number);
  }
  engine.rocksdb_free(value);
  return {begin_ns, end_ns};
}

// However slow the device is, what was not read once by then is read when its turn comes.
constexpr uint64_t kFirstPassNs = 30000000000u;

// One reader of the open loop: reads are due at times that were drawn beforehand; one that is
// late starts at once, and its response time says so.
void Read(Shared& shared, const Arguments& arguments, uint64_t reader, uint64_t start_ns) {
  prctl(PR_SET_NAME, "reader");
  prctl(PR_SET_TIMERSLACK, 1);
  const uint64_t readers = arguments.Count("readers");
  const HotKeys& hot_keys = shared.hot_keys;
  const Engine& engine = shared.database.Api();
  const double reader_gap_ns = 1e9 * static_cast<double>(readers);
  uint64_t state = arguments.Count("seed") * 7919 + reader;
  rocksdb_readoptions_t* options = engine.rocksdb_readoptions_create();
  std::vector<uint64_t> scratch;
  std::vector<Record> records;
  // Each hot key once, or what is called idle were first reads to a good part: of keys that are
  // chosen at random, one in e has not been read when as many reads as there are keys were made.
  std::vector<uint64_t> first;
  for (uint64_t hot = reader; hot < hot_keys.Count(); hot += readers) first.push_back(hot);
  for (size_t left = first.size(); left > 1; --left) {
    std::swap(first[left - 1], first[Mix(state) % left]);
  }
  for (uint64_t hot : first) {
    if (NowNs() - start_ns > kFirstPassNs) break;
    ReadOne(shared, options, hot_keys.Number(hot), scratch);
  }
  shared.first_passes.fetch_add(1);
  double due_ns = static_cast<double>(NowNs());
  while (!shared.stop.load(std::memory_order_relaxed)) {
    double uniform = static_cast<double>(Mix(state) >> 11) / 9007199254740992.0;
    const double mean_gap_ns = reader_gap_ns / shared.reads_per_second.load(std::memory_order_relaxed);
    due_ns -= std::log1p(-uniform) * mean_gap_ns;
    uint64_t intended_ns = static_cast<uint64_t>(due_ns);
    SleepUntil(intended_ns);
    const uint64_t number = hot_keys.Number(Mix(state) % hot_keys.Count());
    const Phase phase = shared.phase.load(std::memory_order_relaxed);
    const auto [begin_ns, end_ns] = ReadOne(shared, options, number, scratch);
    records.push_back(Record::Read(phase, intended_ns, begin_ns, end_ns));
    if (records.size() >= 256) {
      shared.output.Add(records);
      records.clear();
    }
  }
  shared.output.Add(records);
  engine.rocksdb_readoptions_destroy(options);
}

// Rewrites uniformly chosen keys at a rate in bytes a second, so that compaction never ends.
void Update(Shared& shared, const Arguments& arguments, double bytes_per_second) {
  prctl(PR_SET_NAME, "updater");
  const uint64_t keys = arguments.Count("keys");
  const Engine& engine = shared.database.Api();
  rocksdb_writeoptions_t* write = engine.rocksdb_writeoptions_create();
  std::vector<uint64_t> value;
  uint64_t state = arguments.Count("seed") + 17;
  uint64_t version = uint64_t{1} << 32;  // None that the data set was loaded with.
  double due_ns = static_cast<double>(NowNs());
  const double gap_ns = 1e9 * static_cast<double>(shared.content.ValueBytes()) / bytes_per_second;
  while (!shared.stop.load(std::memory_order_relaxed) && shared.phase.load() < kAfter) {
    due_ns += gap_ns;
    SleepUntil(static_cast<uint64_t>(due_ns));
    const uint64_t late_ns = NowNs() - static_cast<uint64_t>(due_ns);
    if (late_ns > shared.update_late_ns.load()) shared.update_late_ns.store(late_ns);
    uint64_t number = Mix(state) % keys;
    shared.database.Put(write, shared.content, number, ++version, value);
    shared.updates.fetch_add(1);
  }
  engine.rocksdb_writeoptions_destroy(write);
}

// The value behind `rocksdb.compact.read.bytes COUNT : ` of the engine's statistics.
uint64_t Ticker(const std::string& statistics, const char* name) {
  std::string wanted = std::string(name) + " COUNT : ";
  size_t place = statistics.find(wanted);
  if (place == std::string::npos) return 0;
  return std::strtoull(statistics.c_str() + place + wanted.size(), nullptr, 10);
}

// Reads every key, with its value, in order.
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

}  // namespace

int Run(const Arguments& arguments) {
  const HotKeys hot_keys(arguments);
  const bool is_warm = arguments.OneOf("start", "cold", "warm") == "warm";
  const Engine engine(arguments.Text("library"));
  const Content content(arguments.Count("value-bytes"));
  const std::string path = arguments.Text("db");
  const double compaction_rate = arguments.Number("compaction-bytes-per-second");
  const double update_rate = arguments.Number("update-bytes-per-second");
  const bool continuous = update_rate > 0;
  DropPages(path);
  if (is_warm) WarmPages(path);
  Options options(engine, arguments.Text("options") +
                              (continuous ? "" : ";disable_auto_compactions=true"));
  options.EnableStatistics();
  if (compaction_rate > 0) options.LimitRate(compaction_rate);
  const Database database(engine, options, path);
  const double reads_per_second = arguments.Number("reads-per-second");
  const std::vector<double> load_steps = arguments.Numbers("load-steps");
  Shared shared{database, content, hot_keys, {reads_per_second}};

  const uint64_t start_ns = NowNs();
  shared.output.Add(Record::Begun(kWarmUp, start_ns, ClockNs(CLOCK_PROCESS_CPUTIME_ID), 0));
  std::vector<std::thread> threads;
  for (uint64_t reader = 0; reader < arguments.Count("readers"); ++reader) {
    threads.emplace_back(Read, std::ref(shared), std::cref(arguments), reader, start_ns);
  }
  std::thread writer([&shared] {
    prctl(PR_SET_NAME, "records");
    while (!shared.stop.load()) {
      SleepUntil(NowNs() + 100000000u);
      shared.output.Flush();
    }
  });
  auto enter = [&shared, &threads](Phase phase) {
    uint64_t load_ns = 0;
    for (std::thread& thread : threads) {
      clockid_t clock;
      if (pthread_getcpuclockid(thread.native_handle(), &clock) == 0) load_ns += ClockNs(clock);
    }
    const uint64_t process_ns = ClockNs(CLOCK_PROCESS_CPUTIME_ID);
    shared.phase.store(phase);
    shared.output.Add(Record::Begun(phase, NowNs(), process_ns, load_ns));
  };
  auto wait = [](double seconds) { SleepUntil(NowNs() + static_cast<uint64_t>(seconds * 1e9)); };

  while (shared.first_passes.load() < arguments.Count("readers")) SleepUntil(NowNs() + 10000000u);
  wait(arguments.Number("warm-up-seconds"));
  enter(kIdle);
  wait(arguments.Number("idle-seconds"));
  enter(kCompaction);
  if (continuous) {
    threads.emplace_back(Update, std::ref(shared), std::cref(arguments), update_rate);
    const double steps = static_cast<double>(load_steps.size());
    for (double step : load_steps) {
      shared.reads_per_second.store(step);
      wait(arguments.Number("compaction-seconds") / steps);
    }
    shared.reads_per_second.store(reads_per_second);
    database.CheckBackground();
    shared.output.Add(
        Record::Updated(shared.updates.load(), shared.update_late_ns.load(),
                        database.Property("rocksdb.estimate-pending-compaction-bytes")));
  } else {
    database.CompactEverything();
  }
  const std::string statistics = options.Statistics();
  shared.output.Add(Record::Compacted(Ticker(statistics, "rocksdb.compact.read.bytes"),
                                      Ticker(statistics, "rocksdb.compact.write.bytes")));
  enter(kAfter);
  wait(arguments.Number("after-seconds"));
  enter(kEnded);
  shared.stop.store(true);
  for (std::thread& thread : threads) thread.join();
  writer.join();

  if (arguments.Count("verify") != 0) Verify(database, content, arguments.Count("keys"));
  shared.output.Flush();
  return 0;
}

}  // namespace driver
