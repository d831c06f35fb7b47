// The driver's commands. Each returns the exit code of the process.

#pragma once

#include "parameters.h"

namespace driver {

// Builds a data set.
int Load(const LoadParameters& parameters);

// Reads the data set at a fixed rate before, during and after a compaction.
int Run(const RunParameters& parameters);

}  // namespace driver
