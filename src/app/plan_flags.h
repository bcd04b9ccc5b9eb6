/// How a model is spread over ranks: the same words for commands that run it and for those that simulate it.
#pragma once

#include "model/parallel_plan.h"

namespace baleen {

class Options;

/// `--tp`, `--dp`, `--ep`, `--pp` and the others; zeros where they are not given.
void add_plan_options(Options& command, ParallelPlan& plan);

}  // namespace baleen
