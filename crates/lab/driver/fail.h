// Ends the driver with a message and an exit code that the laboratory knows.

#pragma once

#include <cerrno>  // program_invocation_short_name: glibc
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace driver {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitEngine = 3;
inline constexpr int kExitVerification = 4;

[[noreturn]] inline void Fail(int code, const char* format, ...) __attribute__((format(printf, 2, 3)));

inline void Fail(int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "%s: ", program_invocation_short_name);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::_Exit(code);
}

}  // namespace driver
