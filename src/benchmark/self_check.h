/// Whether a device computes what the references do: small models with random weights, run with each variant
/// of each operation that takes their calls.
#pragma once

#include <string>
#include <vector>

#include "device/device_choice.h"

namespace baleen {

/// A model that was run with one variant forced. Errors are ||got - want|| / ||want|| of a position's logits
/// against the reference variants on the CPU. Random models show every difference: a rounding that falls the
/// other way moves logits by percents, so what is right the CPU's other variants say.
struct CheckedVariant {
  std::string operation, variant;  ///< both empty: what the device chooses by itself
  double median_error = 0;         ///< over the positions
  bool agrees = false;             ///< the median is below twice the CPU's
  std::string failure;             ///< why it could not be run; empty: it was
};

struct SelfCheck {
  std::string model;  ///< a preset's name
  double cpu_median_error = 0;
  std::vector<CheckedVariant> checked;
};

/// Some seconds for each model. Throws `Error` where a device cannot be used at all.
[[nodiscard]] std::vector<SelfCheck> self_check(const DeviceChoice& device, int num_threads);

}  // namespace baleen
