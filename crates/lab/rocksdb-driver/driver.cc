// The laboratory's load driver: real RocksDB, any build of it, in one process.
//
// The engine is loaded at run time and used through its C API only, so that one driver drives
// every version; options are passed as RocksDB's own option strings, so that a new option needs no
// new code here. What it measures goes to standard output as fixed records (see Record), which
// the laboratory turns into histograms; nothing is aggregated here. Every value read is verified.

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kExitUsage = 2;
constexpr int kExitEngine = 3;
constexpr int kExitVerification = 4;

[[noreturn]] void Fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

void Fail(int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("rocksdb driver: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::_Exit(code);
}

// The functions of RocksDB's C API that are used, by their declarations in <rocksdb/c.h>.
#define ENGINE_FUNCTIONS(F)                  \
  F(rocksdb_options_create)                  \
  F(rocksdb_options_destroy)                 \
  F(rocksdb_get_options_from_string)         \
  F(rocksdb_options_enable_statistics)       \
  F(rocksdb_options_statistics_get_string)   \
  F(rocksdb_options_set_ratelimiter)         \
  F(rocksdb_ratelimiter_create)              \
  F(rocksdb_ratelimiter_destroy)             \
  F(rocksdb_open)                            \
  F(rocksdb_close)                           \
  F(rocksdb_writeoptions_create)             \
  F(rocksdb_writeoptions_destroy)            \
  F(rocksdb_writeoptions_disable_WAL)        \
  F(rocksdb_readoptions_create)              \
  F(rocksdb_readoptions_destroy)             \
  F(rocksdb_readoptions_set_fill_cache)      \
  F(rocksdb_flushoptions_create)             \
  F(rocksdb_flushoptions_destroy)            \
  F(rocksdb_put)                             \
  F(rocksdb_get)                             \
  F(rocksdb_flush)                           \
  F(rocksdb_compact_range)                   \
  F(rocksdb_property_int)                    \
  F(rocksdb_create_iterator)                 \
  F(rocksdb_iter_destroy)                    \
  F(rocksdb_iter_seek_to_first)              \
  F(rocksdb_iter_valid)                      \
  F(rocksdb_iter_next)                       \
  F(rocksdb_iter_key)                        \
  F(rocksdb_iter_value)                      \
  F(rocksdb_iter_get_error)                  \
  F(rocksdb_free)

struct Engine {
#define DECLARE(name) decltype(&::name) name = nullptr;
  ENGINE_FUNCTIONS(DECLARE)
#undef DECLARE

  explicit Engine(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      Fail(kExitEngine, "cannot load %s: %s", path.c_str(), dlerror());
    }
#define RESOLVE(function)                                                                \
  function = reinterpret_cast<decltype(function)>(dlsym(library, #function));            \
  if (function == nullptr) {                                                             \
    Fail(kExitEngine, "%s has no %s: a RocksDB with its C API is needed", path.c_str(), \
         #function);                                                                     \
  }
    ENGINE_FUNCTIONS(RESOLVE)
#undef RESOLVE
  }
};

// Takes the error that a call of the C API left, if any.
void Check(const Engine& engine, const char* what, char* error) {
  if (error != nullptr) {
    std::string text = error;
    engine.rocksdb_free(error);
    Fail(kExitEngine, "%s: %s", what, text.c_str());
  }
}

struct Arguments {
  std::map<std::string, std::string> values;

  std::string Text(const std::string& name) const {
    auto found = values.find(name);
    if (found == values.end()) Fail(kExitUsage, "--%s is missing", name.c_str());
    return found->second;
  }

  // One number or more, with commas between them.
  std::vector<double> Numbers(const std::string& name) const {
    const std::string text = Text(name);
    std::vector<double> numbers;
    const char* rest = text.c_str();
    for (;;) {
      char* end = nullptr;
      const double number = std::strtod(rest, &end);
      if (end == rest || (*end != '\0' && *end != ',') || number < 0) {
        Fail(kExitUsage, "--%s: \"%s\" is not a number", name.c_str(), text.c_str());
      }
      numbers.push_back(number);
      if (*end == '\0') return numbers;
      rest = end + 1;
    }
  }

  double Number(const std::string& name) const {
    const std::vector<double> numbers = Numbers(name);
    if (numbers.size() != 1) Fail(kExitUsage, "--%s: more than one number", name.c_str());
    return numbers[0];
  }

  uint64_t Count(const std::string& name) const { return static_cast<uint64_t>(Number(name)); }
};

uint64_t NowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

// 0 for a clock that is no more.
uint64_t CpuNs(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

void SleepUntil(uint64_t when_ns) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(when_ns / 1000000000u);
  time.tv_nsec = static_cast<long>(when_ns % 1000000000u);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

// splitmix64: small, and good enough to be incompressible.
uint64_t Mix(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Key and value of a number: the value begins with the number and a version, and the rest follows
// from both, so that a wrong, torn or shifted byte cannot pass for right.
class Content {
 public:
  explicit Content(size_t value_bytes) : words_(value_bytes / 8 < 2 ? 2 : value_bytes / 8) {}

  static std::string Key(uint64_t number) {
    char key[24];
    std::snprintf(key, sizeof key, "%016" PRIu64, number);
    return std::string(key, 16);
  }

  size_t ValueBytes() const { return words_ * 8; }

  void Fill(uint64_t number, uint64_t version, std::vector<uint64_t>& value) const {
    value.resize(words_);
    value[0] = number;
    value[1] = version;
    uint64_t state = number * 1000003u + version;
    for (size_t word = 2; word < words_; ++word) value[word] = Mix(state);
  }

  bool Matches(uint64_t number, const char* bytes, size_t length,
               std::vector<uint64_t>& scratch) const {
    if (length != ValueBytes()) return false;
    uint64_t version = 0;
    std::memcpy(&version, bytes + 8, 8);
    Fill(number, version, scratch);
    return std::memcmp(bytes, scratch.data(), length) == 0;
  }

 private:
  size_t words_;
};

// A record of standard output, 32 bytes, in the machine's byte order.
struct Record {
  enum Kind : uint32_t {
    kRead = 0,             // intended, start, end of one read
    kPhase = 1,            // phase number begins at start_ns; CPU time until then of the process
                           // (intended_ns) and of the threads that make the load (end_ns)
    kCompacted = 2,        // bytes that compaction has read (intended_ns) and written (start_ns)
    kEnd = 3,              // everything was written out
    kUpdated = 4,          // updates that were made (intended_ns), how late the latest of them began
                           // (start_ns), and bytes that compaction is behind then (end_ns)
  };
  uint32_t kind;
  uint32_t phase;
  uint64_t intended_ns;
  uint64_t start_ns;
  uint64_t end_ns;
};
static_assert(sizeof(Record) == 32, "the laboratory reads 32 bytes");

// Collects records of all threads and writes them in large pieces from one of its own.
class Output {
 public:
  void Add(const std::vector<Record>& records) {
    std::lock_guard<std::mutex> lock(mutex_);
    pending_.insert(pending_.end(), records.begin(), records.end());
  }

  void Add(const Record& record) { Add(std::vector<Record>{record}); }

  void Flush() {
    std::vector<Record> records;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      records.swap(pending_);
    }
    const char* bytes = reinterpret_cast<const char*>(records.data());
    size_t left = records.size() * sizeof(Record);
    while (left > 0) {
      ssize_t written = ::write(STDOUT_FILENO, bytes, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) Fail(kExitEngine, "standard output: %s", std::strerror(errno));
      bytes += written;
      left -= static_cast<size_t>(written);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Record> pending_;
};

rocksdb_options_t* MakeOptions(const Engine& engine, const std::string& text) {
  rocksdb_options_t* base = engine.rocksdb_options_create();
  rocksdb_options_t* options = engine.rocksdb_options_create();
  char* error = nullptr;
  engine.rocksdb_get_options_from_string(base, text.c_str(), options, &error);
  Check(engine, ("options \"" + text + "\"").c_str(), error);
  engine.rocksdb_options_destroy(base);
  return options;
}

uint64_t Property(const Engine& engine, rocksdb_t* database, const char* name) {
  uint64_t value = 0;
  if (engine.rocksdb_property_int(database, name, &value) != 0) {
    Fail(kExitEngine, "this RocksDB has no property %s", name);
  }
  return value;
}

// A compaction that failed leaves the old tables as they are, and nothing else says so.
void CheckBackground(const Engine& engine, rocksdb_t* database) {
  const uint64_t errors = Property(engine, database, "rocksdb.background-errors");
  if (errors != 0) {
    Fail(kExitEngine, "%" PRIu64 " flushes or compactions have failed: see the database's LOG", errors);
  }
}

rocksdb_t* Open(const Engine& engine, const rocksdb_options_t* options, const std::string& path) {
  char* error = nullptr;
  rocksdb_t* database = engine.rocksdb_open(options, path.c_str(), &error);
  Check(engine, ("open " + path).c_str(), error);
  return database;
}

// Writes one version of a value; `value` is room for it.
void PutValue(const Engine& engine, rocksdb_t* database, const rocksdb_writeoptions_t* write,
              const Content& content, uint64_t number, uint64_t version,
              std::vector<uint64_t>& value) {
  content.Fill(number, version, value);
  std::string key = Content::Key(number);
  char* error = nullptr;
  engine.rocksdb_put(database, write, key.data(), key.size(),
                     reinterpret_cast<const char*>(value.data()), content.ValueBytes(), &error);
  Check(engine, "put", error);
}

// Opens a database to be loaded, and writes to it as fast as it takes it.
class Loader {
 public:
  Loader(const Engine& engine, const Arguments& arguments, const char* more_options)
      : engine_(engine),
        content_(arguments.Count("value-bytes")),
        options_(MakeOptions(engine, arguments.Text("options") + more_options)),
        database_(Open(engine, options_, arguments.Text("db"))),
        write_(engine.rocksdb_writeoptions_create()) {
    engine.rocksdb_writeoptions_disable_WAL(write_, 1);
  }

  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  ~Loader() {
    engine_.rocksdb_writeoptions_destroy(write_);
    engine_.rocksdb_close(database_);
    engine_.rocksdb_options_destroy(options_);
  }

  void Put(uint64_t number, uint64_t version) {
    PutValue(engine_, database_, write_, content_, number, version, value_);
  }

  void Flush() {
    rocksdb_flushoptions_t* flush = engine_.rocksdb_flushoptions_create();
    char* error = nullptr;
    engine_.rocksdb_flush(database_, flush, &error);
    Check(engine_, "flush", error);
    engine_.rocksdb_flushoptions_destroy(flush);
  }

  void CompactEverything() {
    engine_.rocksdb_compact_range(database_, nullptr, 0, nullptr, 0);
    CheckBackground(engine_, database_);
  }

  // Until no compaction runs and none is due.
  void WaitForCompactions() {
    auto property = [this](const char* name) { return Property(engine_, database_, name); };
    while (property("rocksdb.num-running-compactions") != 0 ||
           property("rocksdb.compaction-pending") != 0) {
      CheckBackground(engine_, database_);
      SleepUntil(NowNs() + 50000000u);
    }
  }

 private:
  const Engine& engine_;
  Content content_;
  rocksdb_options_t* options_;
  rocksdb_t* database_;
  rocksdb_writeoptions_t* write_;
  std::vector<uint64_t> value_;
};

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

// Drops the database's pages from the page cache, and no other file's: the run starts cold.
void DropPages(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) continue;
    ::fsync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }
}

// Reads the whole database through the page cache. After DropPages only: the files are hard links,
// and their pages stay charged to the cgroup of whoever brought them in.
void WarmPages(const std::string& path) {
  std::vector<char> buffer(1 << 20);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
      Fail(kExitEngine, "open %s: %s", entry.path().c_str(), std::strerror(errno));
    }
    for (;;) {
      ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) Fail(kExitEngine, "read %s: %s", entry.path().c_str(), std::strerror(errno));
      if (count == 0) break;
    }
    ::close(descriptor);
  }
}

struct Shared {
  const Engine& engine;
  rocksdb_t* database;
  const Content& content;
  Output output;
  std::atomic<double> reads_per_second;
  std::atomic<uint32_t> phase{0};
  std::atomic<bool> stop{false};
  // Readers that have read each of their hot keys once.
  std::atomic<uint64_t> first_passes{0};
  std::atomic<uint64_t> updates{0};
  std::atomic<uint64_t> update_late_ns{0};
};

// The keys that are read.
class HotKeys {
 public:
  explicit HotKeys(const Arguments& arguments)
      : keys_(arguments.Count("keys")),
        count_(arguments.Count("hot-keys")),
        contiguous_(arguments.Text("hot-layout") == "contiguous") {}

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

// Reads a key and compares its value; when that began and ended.
std::pair<uint64_t, uint64_t> ReadOne(const Shared& shared, const rocksdb_readoptions_t* options,
                                      uint64_t number, std::vector<uint64_t>& scratch) {
  std::string key = Content::Key(number);
  uint64_t begin_ns = NowNs();
  size_t length = 0;
  char* error = nullptr;
  char* value = shared.engine.rocksdb_get(shared.database, options, key.data(), key.size(), &length,
                                          &error);
  uint64_t end_ns = NowNs();
  Check(shared.engine, "get", error);
  if (value == nullptr || !shared.content.Matches(number, value, length, scratch)) {
    Fail(kExitVerification, "key %" PRIu64 " has a wrong value", number);
  }
  shared.engine.rocksdb_free(value);
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
  const HotKeys hot_keys(arguments);
  const double reader_gap_ns = 1e9 * static_cast<double>(readers);
  uint64_t state = arguments.Count("seed") * 7919 + reader;
  rocksdb_readoptions_t* options = shared.engine.rocksdb_readoptions_create();
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
    uint32_t phase = shared.phase.load(std::memory_order_relaxed);
    const auto [begin_ns, end_ns] = ReadOne(shared, options, number, scratch);
    records.push_back({Record::kRead, phase, intended_ns, begin_ns, end_ns});
    if (records.size() >= 256) {
      shared.output.Add(records);
      records.clear();
    }
  }
  shared.output.Add(records);
  shared.engine.rocksdb_readoptions_destroy(options);
}

// Rewrites uniformly chosen keys at a rate in bytes a second, so that compaction never ends.
void Update(Shared& shared, const Arguments& arguments, double bytes_per_second) {
  prctl(PR_SET_NAME, "updater");
  const uint64_t keys = arguments.Count("keys");
  rocksdb_writeoptions_t* write = shared.engine.rocksdb_writeoptions_create();
  std::vector<uint64_t> value;
  uint64_t state = arguments.Count("seed") + 17;
  uint64_t version = uint64_t{1} << 32;  // None that the data set was loaded with.
  double due_ns = static_cast<double>(NowNs());
  const double gap_ns = 1e9 * static_cast<double>(shared.content.ValueBytes()) / bytes_per_second;
  while (!shared.stop.load(std::memory_order_relaxed) && shared.phase.load() < 3) {
    due_ns += gap_ns;
    SleepUntil(static_cast<uint64_t>(due_ns));
    const uint64_t late_ns = NowNs() - static_cast<uint64_t>(due_ns);
    if (late_ns > shared.update_late_ns.load()) shared.update_late_ns.store(late_ns);
    uint64_t number = Mix(state) % keys;
    PutValue(shared.engine, shared.database, write, shared.content, number, ++version, value);
    shared.updates.fetch_add(1);
  }
  shared.engine.rocksdb_writeoptions_destroy(write);
}

// The value behind `rocksdb.compact.read.bytes COUNT : ` of the engine's statistics.
uint64_t Ticker(const std::string& statistics, const char* name) {
  std::string wanted = std::string(name) + " COUNT : ";
  size_t place = statistics.find(wanted);
  if (place == std::string::npos) return 0;
  return std::strtoull(statistics.c_str() + place + wanted.size(), nullptr, 10);
}

int Run(const Arguments& arguments) {
  Engine engine(arguments.Text("library"));
  Content content(arguments.Count("value-bytes"));
  const std::string path = arguments.Text("db");
  const double compaction_rate = arguments.Number("compaction-bytes-per-second");
  const double update_rate = arguments.Number("update-bytes-per-second");
  const bool continuous = update_rate > 0;
  const std::string start = arguments.Text("start");
  if (start != "cold" && start != "warm") Fail(kExitUsage, "--start is cold or warm");
  DropPages(path);
  if (start == "warm") WarmPages(path);
  rocksdb_options_t* options =
      MakeOptions(engine, arguments.Text("options") +
                              (continuous ? "" : ";disable_auto_compactions=true"));
  engine.rocksdb_options_enable_statistics(options);
  rocksdb_ratelimiter_t* limiter = nullptr;
  if (compaction_rate > 0) {
    limiter = engine.rocksdb_ratelimiter_create(static_cast<int64_t>(compaction_rate), 100000, 10);
    engine.rocksdb_options_set_ratelimiter(options, limiter);
  }
  rocksdb_t* database = Open(engine, options, path);
  const double reads_per_second = arguments.Number("reads-per-second");
  const std::vector<double> load_steps = arguments.Numbers("load-steps");
  Shared shared{engine, database, content, {}, {reads_per_second}};

  const uint64_t start_ns = NowNs();
  shared.output.Add({Record::kPhase, 0, CpuNs(CLOCK_PROCESS_CPUTIME_ID), start_ns, 0});
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
  auto enter = [&shared, &threads](uint32_t phase) {
    uint64_t load_ns = 0;
    for (std::thread& thread : threads) {
      clockid_t clock;
      if (pthread_getcpuclockid(thread.native_handle(), &clock) == 0) load_ns += CpuNs(clock);
    }
    const uint64_t process_ns = CpuNs(CLOCK_PROCESS_CPUTIME_ID);
    shared.phase.store(phase);
    shared.output.Add({Record::kPhase, phase, process_ns, NowNs(), load_ns});
  };
  auto wait = [](double seconds) { SleepUntil(NowNs() + static_cast<uint64_t>(seconds * 1e9)); };

  while (shared.first_passes.load() < arguments.Count("readers")) SleepUntil(NowNs() + 10000000u);
  wait(arguments.Number("warm-up-seconds"));
  enter(1);
  wait(arguments.Number("idle-seconds"));
  enter(2);
  if (continuous) {
    threads.emplace_back(Update, std::ref(shared), std::cref(arguments), update_rate);
    const double steps = static_cast<double>(load_steps.size());
    for (double step : load_steps) {
      shared.reads_per_second.store(step);
      wait(arguments.Number("compaction-seconds") / steps);
    }
    shared.reads_per_second.store(reads_per_second);
  } else {
    engine.rocksdb_compact_range(database, nullptr, 0, nullptr, 0);
  }
  CheckBackground(engine, database);
  if (continuous) {
    shared.output.Add({Record::kUpdated, 2, shared.updates.load(), shared.update_late_ns.load(),
                       Property(engine, database, "rocksdb.estimate-pending-compaction-bytes")});
  }
  char* text = engine.rocksdb_options_statistics_get_string(options);
  const std::string statistics = text == nullptr ? "" : text;
  engine.rocksdb_free(text);
  shared.output.Add({Record::kCompacted, 2, Ticker(statistics, "rocksdb.compact.read.bytes"),
                     Ticker(statistics, "rocksdb.compact.write.bytes"), NowNs()});
  enter(3);
  wait(arguments.Number("after-seconds"));
  enter(4);
  shared.stop.store(true);
  for (std::thread& thread : threads) thread.join();
  writer.join();

  if (arguments.Count("verify") != 0) {
    rocksdb_readoptions_t* read = engine.rocksdb_readoptions_create();
    engine.rocksdb_readoptions_set_fill_cache(read, 0);
    rocksdb_iterator_t* iterator = engine.rocksdb_create_iterator(database, read);
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
    if (number != arguments.Count("keys")) {
      Fail(kExitVerification, "%" PRIu64 " keys, %" PRIu64 " were written", number,
           arguments.Count("keys"));
    }
    engine.rocksdb_iter_destroy(iterator);
    engine.rocksdb_readoptions_destroy(read);
  }
  engine.rocksdb_close(database);
  engine.rocksdb_options_destroy(options);
  if (limiter != nullptr) engine.rocksdb_ratelimiter_destroy(limiter);
  shared.output.Add({Record::kEnd, 4, 0, NowNs(), 0});
  shared.output.Flush();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const char* usage =
      "usage: coldstream-rocksdb-driver load|run --NAME VALUE …\n"
      "Started by `coldstream lab rocksdb`; see its --help.\n";
  // A laboratory that is killed outright takes its load with it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count < 2) {
    std::fputs(usage, stderr);
    return kExitUsage;
  }
  Arguments arguments;
  for (int word = 2; word < count; word += 2) {
    if (std::strncmp(words[word], "--", 2) != 0 || word + 1 >= count) {
      std::fputs(usage, stderr);
      return kExitUsage;
    }
    arguments.values[words[word] + 2] = words[word + 1];
  }
  const std::string command = words[1];
  if (command == "load") return Load(arguments);
  if (command == "run") return Run(arguments);
  std::fputs(usage, stderr);
  return kExitUsage;
}
