// Keys and values. A value follows from its key, so that every read can be verified.

#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace driver {

// splitmix64: small, and good enough to be incompressible.
inline uint64_t Mix(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Key and value of a number. The value begins with the number and a version; the rest follows from
// both. So no wrong, torn or shifted byte can pass as right.
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

}  // namespace driver
