/// What `baleen bench` holds figures against: the limits of the machine, measured in the same run.
#pragma once

#include <string>

#include "rank_engine/rank_engine.h"

namespace baleen {

/// The limits of what an engine runs on, and what each of them is a limit of.
struct Ceilings {
  std::string machine;          ///< the machine and its limits, as a sentence
  std::string memory;           ///< "read": streaming reads (a CPU); "copy": bytes read and written (a GPU)
  double bytes_per_second = 0;  ///< rate of `memory`
  std::string arithmetic;       ///< "FMA": float32 multiply-adds (a CPU); "FP8", "BF16": products (a GPU)
  double flops_per_second = 0;  ///< peak of `arithmetic`, two FLOPs a multiply-add
};

/// Takes about a second. Throws `Error` where a GPU fails.
[[nodiscard]] Ceilings measure_ceilings(ModelEngine& engine);

}  // namespace baleen
