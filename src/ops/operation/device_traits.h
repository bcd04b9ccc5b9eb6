/// What a device can do and wants, as a value: code above device/ asks it instead of a device's kind.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "tensor/activations.h"
#include "tensor/device_rates.h"

namespace baleen {

/// Messages that are posted beside other operations (MessageLane): what pays, as measured on the device.
struct PostedMessages {
  /// Of a rank's step, for which the shared expert runs beside the dispatch.
  std::int64_t least_rows = 0;
  /// Units that a dispatch has beside the shared expert.
  int dispatch_units = 1;
  /// Units that messages of one half of a step have beside the other half. They are nearly always under way,
  /// so the other half's operations lose these for good.
  int half_step_units = 1;
};

struct DeviceTraits {
  /// Of its kernels; a GPU architecture's is the name of its folders: "cpu", "sm90".
  std::string_view architecture = "cpu";
  /// Of activations that hold BF16 values.
  ElementType activation_type = ElementType::kF32;
  /// Operations work in the host's memory: weights where the checkpoint is mapped, results where the host
  /// reads them. Ranks then exchange messages through the host; otherwise by kernels, each on a device that
  /// is named.
  bool shares_host_memory = true;
  /// Operations take effect later, and the host may be a step ahead. Timing each of them slows a step down.
  bool queues = false;
  /// Computes in `released` precision only.
  bool released_only = false;
  /// Steps of up to this many rows are padded to few sizes, captured at start-up and replayed. 0: no step is.
  std::int64_t max_replayed_rows = 0;
  /// Memory beside what is planned by name.
  std::int64_t overhead_bytes = 0;
  /// Threads of a CPU, multiprocessors of a GPU.
  int num_units = 1;
  /// Most shared memory of a block; 0: kernels have none.
  std::int64_t shared_bytes_per_block = 0;
  /// Size of the last cache before a GPU's memory; 0: not a GPU.
  std::int64_t l2_bytes = 0;
  /// Tensor cores multiply FP8 values.
  bool has_fp8_units = false;
  /// Kernels queue copies of tensors (TMA).
  bool has_tensor_copies = false;
  /// A kernel may begin while the one before it still runs.
  bool starts_kernels_early = false;
  DeviceRates rates;
  PostedMessages posted;

  [[nodiscard]] bool replays() const { return max_replayed_rows > 0; }

  /// Rows that a step of `num_rows` takes, padding included: powers of two up to 32, then multiples of 32,
  /// because a captured step takes a megabyte or two and a row of padding next to nothing.
  [[nodiscard]] std::int64_t padded_rows(std::int64_t num_rows) const {
    constexpr std::int64_t kStep = 32;
    if (num_rows > max_replayed_rows) return num_rows;
    if (num_rows > kStep) return (num_rows + kStep - 1) / kStep * kStep;
    std::int64_t bucket = 1;
    while (bucket < num_rows) bucket *= 2;
    return bucket;
  }
};

}  // namespace baleen
