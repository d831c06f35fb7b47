#include "json.h"

#include "fail.h"

#include <cstring>
#include <utility>

namespace driver {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& document) : document_(document) {}

  std::map<std::string, JsonValue> Object() {
    std::map<std::string, JsonValue> members;
    Expect('{', "an object");
    if (Accept('}')) return End(std::move(members));
    do {
      SkipSpace();
      const std::string name = String();
      Expect(':', "':'");
      if (!members.emplace(name, Value()).second) {
        Fail(kExitUsage, "%s is given twice", name.c_str());
      }
    } while (Accept(','));
    Expect('}', "',' or '}'");
    return End(std::move(members));
  }

 private:
  template <typename T>
  T End(T result) {
    SkipSpace();
    if (at_ != document_.size()) Refuse("the end");
    return result;
  }

  JsonValue Value() {
    SkipSpace();
    const char first = Peek();
    if (first == '"') return String();
    if (first == '[') return Array();
    if (Word("true")) return true;
    if (Word("false")) return false;
    return Number();
  }

  std::vector<JsonNumber> Array() {
    std::vector<JsonNumber> numbers;
    Expect('[', "an array");
    if (Accept(']')) return numbers;
    do {
      SkipSpace();
      numbers.push_back(Number());
    } while (Accept(','));
    Expect(']', "',' or ']'");
    return numbers;
  }

  // RFC 8259, section 6: [-] int [frac] [exp], without a superfluous leading zero.
  JsonNumber Number() {
    const size_t begin = at_;
    if (Peek() == '-') ++at_;
    if (Peek() == '0') {
      ++at_;
    } else {
      Digits();
    }
    if (Peek() == '.') {
      ++at_;
      Digits();
    }
    if (Peek() == 'e' || Peek() == 'E') {
      ++at_;
      if (Peek() == '+' || Peek() == '-') ++at_;
      Digits();
    }
    return {document_.substr(begin, at_ - begin)};
  }

  void Digits() {
    if (!IsDigit(Peek())) Refuse("a value");
    while (IsDigit(Peek())) ++at_;
  }

  std::string String() {
    std::string text;
    if (Peek() != '"') Refuse("a string");
    ++at_;
    for (;;) {
      const char letter = Peek();
      if (static_cast<unsigned char>(letter) < 0x20) Refuse("the rest of a string");
      ++at_;
      if (letter == '"') return text;
      text += letter == '\\' ? Escape() : letter;
    }
  }

  // serde_json writes other control characters as \u00XX, and all other text as UTF-8.
  char Escape() {
    static constexpr char kNames[] = "\"\\/bfnrt";
    static constexpr char kMeanings[] = "\"\\/\b\f\n\r\t";
    const char letter = Peek();
    if (letter == 'u') return ControlCharacter();
    const char* name = letter == '\0' ? nullptr : std::strchr(kNames, letter);
    if (name == nullptr) Refuse("an escape");
    ++at_;
    return kMeanings[name - kNames];
  }

  char ControlCharacter() {
    int code = 0;
    ++at_;
    for (int digit = 0; digit < 4; ++digit, ++at_) {
      const char letter = Peek();
      if (IsDigit(letter)) {
        code = code * 16 + (letter - '0');
      } else if (letter >= 'a' && letter <= 'f') {
        code = code * 16 + (letter - 'a' + 10);
      } else {
        Refuse("four digits of an escape");
      }
    }
    if (code == 0 || code >= 0x20) Refuse("a control character");
    return static_cast<char>(code);
  }

  // Takes a letter if it comes next, after white space.
  bool Accept(char letter) {
    SkipSpace();
    if (Peek() != letter) return false;
    ++at_;
    return true;
  }

  void Expect(char letter, const char* what) {
    if (!Accept(letter)) Refuse(what);
  }

  bool Word(const char* word) {
    const size_t length = std::strlen(word);
    if (document_.compare(at_, length, word) != 0) return false;
    at_ += length;
    return true;
  }

  void SkipSpace() {
    while (at_ < document_.size() && std::strchr(" \t\n\r", document_[at_]) != nullptr) ++at_;
  }

  // The next letter, or NUL at the end. The document is a word of the command line: it has no NUL.
  char Peek() const { return at_ < document_.size() ? document_[at_] : '\0'; }

  static bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

  [[noreturn]] void Refuse(const char* expected) const {
    Fail(kExitUsage, "the parameters are no JSON object: at byte %zu %s is expected", at_, expected);
  }

  const std::string& document_;
  size_t at_ = 0;
};

}  // namespace

std::map<std::string, JsonValue> ParseFlatJson(const std::string& document) {
  return Parser(document).Object();
}

}  // namespace driver
