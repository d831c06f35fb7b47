// The driver's arguments: pairs of a name and a value.

#pragma once

#include "fail.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace driver {

struct Arguments {
  std::map<std::string, std::string> values;

  std::string Text(const std::string& name) const {
    auto found = values.find(name);
    if (found == values.end()) Fail(kExitUsage, "--%s is missing", name.c_str());
    return found->second;
  }

  // One of two words.
  std::string OneOf(const std::string& name, const char* one, const char* other) const {
    const std::string text = Text(name);
    if (text != one && text != other) {
      Fail(kExitUsage, "--%s is %s or %s", name.c_str(), one, other);
    }
    return text;
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

}  // namespace driver
