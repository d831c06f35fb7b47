// The driver's commands. Each returns the exit code of the process.

#pragma once

#include "parameters.h"

namespace driver {

// Parses options, so that an unknown one is found before a data set is built.
int CheckOptions(const OptionsParameters& parameters);

// Builds a data set.
int Load(const LoadParameters& parameters);

// Reads the data set before, during and after a compaction.
int Run(const RunParameters& parameters);

}  // namespace driver
