/// Where the forward pass leaves what it guesses of the next block's routing: from the router's input of this
/// block, or, where a table chooses by token, for certain.
#pragma once

#include "moe/residence/expert_placement.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace baleen {

/// On the device, for up to `max_rows` rows. Empty where `counts` has no slots.
class ExpertGuesses {
 public:
  ExpertGuesses(const ExpertCounts& counts, std::int64_t max_rows, Memory& device)
      : counts_(counts),
        max_rows_(counts.num_slots > 0 ? max_rows : 0),
        arena_(device_bytes(counts, max_rows), device),
        logits_(arena_.allocate<float>(max_rows_ * counts.num_to_choose_from())),
        weights_(arena_.allocate<float>(max_rows_ * counts.num_selected)) {
    for (std::int32_t*& ids : ids_) ids = arena_.allocate<std::int32_t>(max_rows_ * counts.num_selected);
  }

  /// [rows, E] of the block's gate over another block's input.
  [[nodiscard]] Activations<2> logits(std::int64_t num_rows) const {
    return {logits_, {num_rows, counts_.num_to_choose_from()}};
  }
  /// [rows, k]; the block before and the one after have another array, for copies still read it while they
  /// are computed.
  [[nodiscard]] View<std::int32_t, 2> ids(std::int64_t block, std::int64_t num_rows) const {
    return {ids_[block % 2], {num_rows, counts_.num_selected}};
  }
  /// [rows, k], of no use.
  [[nodiscard]] Activations<2> weights(std::int64_t num_rows) const {
    return {weights_, {num_rows, counts_.num_selected}};
  }

  [[nodiscard]] static std::int64_t device_bytes(const ExpertCounts& counts, std::int64_t max_rows) {
    if (counts.num_slots == 0) return 0;
    return Arena::bytes_for<float>(max_rows * counts.num_to_choose_from()) +
           3 * Arena::bytes_for<float>(max_rows * counts.num_selected);
  }

 private:
  ExpertCounts counts_;
  std::int64_t max_rows_;
  Arena arena_;
  float* logits_;
  float* weights_;
  std::int32_t* ids_[2] = {};
};

}  // namespace baleen
