// The laboratory's load driver: real RocksDB, any build of it, in one process.
//
// The engine is loaded at run time and used through its C API only, so that one driver drives
// every version; options are passed as RocksDB's own option strings, so that a new option needs no
// new code here. What it measures goes to standard output as fixed records (see records.h), which
// the laboratory turns into histograms; nothing is aggregated here. Every value read is verified.

#include "commands.h"
#include "fail.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstring>
#include <string>

int main(int count, char** words) {
  const char* usage =
      "usage: coldstream-rocksdb-driver load|run --NAME VALUE …\n"
      "Started by `coldstream lab rocksdb`; see its --help.\n";
  // A laboratory that is killed outright takes its load with it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (count < 2) {
    std::fputs(usage, stderr);
    return driver::kExitUsage;
  }
  driver::Arguments arguments;
  for (int word = 2; word < count; word += 2) {
    if (std::strncmp(words[word], "--", 2) != 0 || word + 1 >= count) {
      std::fputs(usage, stderr);
      return driver::kExitUsage;
    }
    arguments.values[words[word] + 2] = words[word + 1];
  }
  const std::string command = words[1];
  if (command == "load") return driver::Load(arguments);
  if (command == "run") return driver::Run(arguments);
  std::fputs(usage, stderr);
  return driver::kExitUsage;
}
