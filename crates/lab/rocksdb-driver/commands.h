// What the driver can do; each returns the process's exit code.

#pragma once

#include "arguments.h"

namespace driver {

// Builds a data set.
int Load(const Arguments& arguments);

// Reads it at a fixed rate, before, during and after compaction.
int Run(const Arguments& arguments);

}  // namespace driver
