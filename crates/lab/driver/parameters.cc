// Reads the parameters, strictly: a field that is missing, unknown, of another type or out of range
// ends the driver before it does anything.

#include "parameters.h"

#include "fail.h"
#include "json.h"

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace driver {
namespace {

// Takes fields out of a document, each once.
class Reader {
 public:
  explicit Reader(const std::string& document) : unread_(ParseFlatJson(document)) {}

  // Ends the driver if a field was not taken.
  void Finish() const {
    if (!unread_.empty()) Fail(kExitUsage, "%s is no parameter", unread_.begin()->first.c_str());
  }

  std::string Text(const char* name) { return Take<std::string>(name, "a string"); }

  // The value whose name the field holds.
  template <typename Enum>
  Enum OneOf(const char* name, const std::pair<const char*, Enum>& one,
             const std::pair<const char*, Enum>& other) {
    const std::string text = Text(name);
    if (text == one.first) return one.second;
    if (text == other.first) return other.second;
    Fail(kExitUsage, "%s is %s or %s", name, one.first, other.first);
  }

  bool Flag(const char* name) { return Take<bool>(name, "true or false"); }

  uint64_t Count(const char* name) {
    return CountOf(name, Take<JsonNumber>(name, "a whole number"), 0);
  }

  uint64_t PositiveCount(const char* name) {
    return CountOf(name, Take<JsonNumber>(name, "a whole number"), 1);
  }

  // At least one number.
  std::vector<uint64_t> PositiveCounts(const char* name) {
    const char* what = "an array of whole numbers";
    std::vector<uint64_t> counts;
    for (const JsonNumber& number : Take<std::vector<JsonNumber>>(name, what)) {
      counts.push_back(CountOf(name, number, 1));
    }
    if (counts.empty()) Fail(kExitUsage, "%s is %s, not empty", name, what);
    return counts;
  }

  double Seconds(const char* name) {
    const JsonNumber number = Take<JsonNumber>(name, "a number of seconds");
    const double seconds = std::strtod(number.text.c_str(), nullptr);
    if (!(seconds >= 0 && seconds <= 1e9)) {
      Fail(kExitUsage, "%s is a number of seconds, not %s", name, number.text.c_str());
    }
    return seconds;
  }

 private:
  template <typename T>
  T Take(const char* name, const char* what) {
    const auto field = unread_.find(name);
    if (field == unread_.end()) Fail(kExitUsage, "%s is missing", name);
    T* value = std::get_if<T>(&field->second);
    if (value == nullptr) Fail(kExitUsage, "%s is %s", name, what);
    T taken = std::move(*value);
    unread_.erase(field);
    return taken;
  }

  static uint64_t CountOf(const char* name, const JsonNumber& number, uint64_t min) {
    char* end = nullptr;
    errno = 0;
    const uint64_t count = std::strtoull(number.text.c_str(), &end, 10);
    if (number.text[0] == '-' || *end != '\0' || errno == ERANGE || count < min) {
      Fail(kExitUsage, "%s is a whole number of at least %" PRIu64 ", not %s", name, min,
           number.text.c_str());
    }
    return count;
  }

  // Fields that nobody has taken yet.
  std::map<std::string, JsonValue> unread_;
};

DatabaseParameters ReadDatabase(Reader& reader) {
  DatabaseParameters database{};
  database.library = reader.Text("library");
  database.directory = reader.Text("directory");
  database.options = reader.Text("options");
  database.keys = reader.PositiveCount("keys");
  database.value_bytes = reader.PositiveCount("value_bytes");
  return database;
}

}  // namespace

OptionsParameters OptionsParameters::Parse(const std::string& document) {
  Reader reader(document);
  OptionsParameters options{};
  options.library = reader.Text("library");
  options.options = reader.Text("options");
  reader.Finish();
  return options;
}

LoadParameters LoadParameters::Parse(const std::string& document) {
  Reader reader(document);
  LoadParameters load{};
  load.database = ReadDatabase(reader);
  load.sorted_runs = reader.PositiveCount("sorted_runs");
  load.updates = reader.Count("updates");
  reader.Finish();
  return load;
}

RunParameters RunParameters::Parse(const std::string& document) {
  Reader reader(document);
  RunParameters run{};
  run.database = ReadDatabase(reader);
  run.start = reader.OneOf<Start>("start", {"cold", Start::kCold}, {"warm", Start::kWarm});
  run.hot_keys = reader.PositiveCount("hot_keys");
  run.hot_layout = reader.OneOf<HotLayout>("hot_layout", {"scattered", HotLayout::kScattered},
                                           {"contiguous", HotLayout::kContiguous});
  run.readers = reader.PositiveCount("readers");
  run.loop = reader.OneOf<Loop>("loop", {"open", Loop::kOpen}, {"closed", Loop::kClosed});
  run.reads_per_second = reader.PositiveCount("reads_per_second");
  run.load_steps = reader.PositiveCounts("load_steps");
  run.seed = reader.Count("seed");
  run.first_pass_seconds = reader.Seconds("first_pass_seconds");
  run.warm_up_seconds = reader.Seconds("warm_up_seconds");
  run.idle_seconds = reader.Seconds("idle_seconds");
  run.compaction_seconds = reader.Seconds("compaction_seconds");
  run.after_seconds = reader.Seconds("after_seconds");
  run.compaction_bytes_per_second = reader.Count("compaction_bytes_per_second");
  run.update_bytes_per_second = reader.Count("update_bytes_per_second");
  run.verify = reader.Flag("verify");
  reader.Finish();
  return run;
}

}  // namespace driver
