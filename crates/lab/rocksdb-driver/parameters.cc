// Reads the parameters, strictly: a field that is missing, unknown, given twice, of another type or
// out of range ends the driver before it does anything.
//
// nlohmann-json (Debian: nlohmann-json3-dev) parses the text. It is right about escapes, UTF-8 and
// number ranges, and a parser of our own would have to be. It is one header and not needed at run
// time, and `scripts/setup` installs RocksDB's headers for this driver anyway. It accepts a field
// that is given twice, and knows nothing of unknown fields: these two checks are below.

#include "parameters.h"

#include "fail.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace driver {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  explicit Reader(const std::string& document) {
    const auto refuse_twice = [this](int depth, Json::parse_event_t event, Json& parsed) {
      if (event == Json::parse_event_t::key && depth == 1) {
        const std::string name = parsed.get<std::string>();
        if (!unread_.insert(name).second) Fail(kExitUsage, "%s is given twice", name.c_str());
      }
      return true;
    };
    object_ = Json::parse(document, refuse_twice, /*allow_exceptions=*/false);
    if (!object_.is_object()) Fail(kExitUsage, "the parameters are no JSON object");
  }

  // Ends the driver if a field was not read.
  void Finish() const {
    if (!unread_.empty()) Fail(kExitUsage, "%s is no parameter", unread_.begin()->c_str());
  }

  std::string Text(const char* name) {
    const Json& value = Take(name);
    if (!value.is_string()) Fail(kExitUsage, "%s is a string", name);
    return value.get<std::string>();
  }

  // The value whose name the field holds.
  template <typename Enum>
  Enum OneOf(const char* name, const std::pair<const char*, Enum>& one,
             const std::pair<const char*, Enum>& other) {
    const std::string text = Text(name);
    if (text == one.first) return one.second;
    if (text == other.first) return other.second;
    Fail(kExitUsage, "%s is %s or %s", name, one.first, other.first);
  }

  bool Flag(const char* name) {
    const Json& value = Take(name);
    if (!value.is_boolean()) Fail(kExitUsage, "%s is true or false", name);
    return value.get<bool>();
  }

  uint64_t Count(const char* name) { return CountOf(name, Take(name), 0); }

  uint64_t PositiveCount(const char* name) { return CountOf(name, Take(name), 1); }

  std::vector<uint64_t> PositiveCounts(const char* name) {
    const Json& value = Take(name);
    if (!value.is_array() || value.empty()) Fail(kExitUsage, "%s is an array of whole numbers", name);
    std::vector<uint64_t> counts;
    for (const Json& element : value) counts.push_back(CountOf(name, element, 1));
    return counts;
  }

  double Seconds(const char* name) {
    const Json& value = Take(name);
    if (!value.is_number() || value.get<double>() < 0) {
      Fail(kExitUsage, "%s is a number of seconds", name);
    }
    return value.get<double>();
  }

 private:
  const Json& Take(const char* name) {
    if (unread_.erase(name) == 0) Fail(kExitUsage, "%s is missing", name);
    return object_[name];
  }

  static uint64_t CountOf(const char* name, const Json& value, uint64_t min) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() < min) {
      Fail(kExitUsage, "%s is a whole number of at least %d", name, static_cast<int>(min));
    }
    return value.get<uint64_t>();
  }

  Json object_;
  // Names of fields that nobody has read yet.
  std::set<std::string> unread_;
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
  run.reads_per_second = reader.PositiveCount("reads_per_second");
  run.load_steps = reader.PositiveCounts("load_steps");
  run.seed = reader.Count("seed");
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
