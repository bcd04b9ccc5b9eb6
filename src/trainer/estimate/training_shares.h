/// How close this machine comes to its limits in each part of a step of training: measured at a reference
/// configuration, for predictions of others.
#pragma once

#include <string_view>

#include "hardware/device_profile.h"
#include "hardware/machine_limits.h"
#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"
#include "trainer/run/model_flops.h"

namespace baleen {

/// Of a part of the model: as tables show it, and as profiles name its passes with float32 products.
struct TrainingPartNames {
  std::string_view part, forward, backward;
};
[[nodiscard]] const TrainingPartNames& training_part(ModelPart part);

inline constexpr std::string_view kTrainNorms = "train_norms", kTrainMuon = "train_muon",
                                  kTrainAdamW = "train_adamw";
/// Behind these names where products have operands rounded to BF16.
inline constexpr std::string_view kTrainBf16 = "_bf16";

/// Adds the shares of every part to `profile`, of products in one precision, whose limits are those of the
/// machine and pool. Takes about a second: a step of 512 tokens through three small layers, twice.
void measure_training_shares(DeviceProfile& profile, TrainPrecision precision, ThreadPool& pool);

/// The same of every precision.
void measure_all_training_shares(DeviceProfile& profile, ThreadPool& pool);

/// This machine as `measure_machine_limits` and `measure_training_shares` find it.
[[nodiscard]] DeviceProfile training_profile(const MachineLimits& limits, TrainPrecision precision,
                                             ThreadPool& pool);

}  // namespace baleen
