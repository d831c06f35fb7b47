// The load driver: a real engine, any build of it, in one process. It is built once for each engine,
// RocksDB and LevelDB, with the engine's folder in the include path.
//
// It loads the engine at run time and uses only its C API, so one driver drives every version.
// RocksDB's options are its own option strings, so a new option needs no new code here. The driver
// verifies every value that it reads. It writes each measurement to standard output as a record of
// fixed size (records.h) and aggregates nothing: the laboratory makes the histograms.

#include "commands.h"
#include "fail.h"
#include "parameters.h"

#include <signal.h>
#include <sys/prctl.h>

#include <cstdio>
#include <string>

int main(int count, char** words) {
  // If the laboratory is killed, its load ends, too.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string command = count == 3 ? words[1] : "";
  if (command == "options") {
    return driver::CheckOptions(driver::OptionsParameters::Parse(words[2]));
  }
  if (command == "load") return driver::Load(driver::LoadParameters::Parse(words[2]));
  if (command == "run") return driver::Run(driver::RunParameters::Parse(words[2]));
  std::fprintf(stderr,
               "usage: %s options|load|run PARAMETERS\n"
               "PARAMETERS is a JSON document. `coldstream lab` starts this program; see its --help.\n",
               words[0]);
  return driver::kExitUsage;
}
