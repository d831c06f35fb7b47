// A strict reader of one flat JSON object: its values are strings, numbers, booleans, or arrays of
// numbers. Anything else ends the driver: malformed text, nested objects, a name that is given
// twice.
//
// It is our own because building the driver shall need a compiler and nothing else. The usual
// library (nlohmann-json) is a package that is installed only for this, it takes a name that is
// given twice, and it is no help against unknown names. The only writer is serde_json.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace driver {

// A number as it is written, such as `-1`, `0.5` or `18446744073709551615`. Text, because a double
// does not hold every 64-bit integer.
struct JsonNumber {
  std::string text;
};

using JsonValue = std::variant<std::string, JsonNumber, bool, std::vector<JsonNumber>>;

// The members of the object by their names.
std::map<std::string, JsonValue> ParseFlatJson(const std::string& document);

}  // namespace driver
