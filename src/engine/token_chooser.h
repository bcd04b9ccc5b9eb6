/// Chooses tokens where their logits are: only ids come to the host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device.h"
#include "ops/sample/sample.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"

namespace baleen {

class TokenChooser {
 public:
  /// For up to `max_rows` rows at a time; takes their ids from `arena`. Both outlive this.
  TokenChooser(Device& device, std::int64_t max_rows, Arena& arena);

  /// What `draws` choose from as many rows of logits; kNoToken where these are no numbers. Waits for the
  /// device. Valid until the next call.
  [[nodiscard]] std::span<const TokenId> choose(const Activations<2>& logits,
                                                std::span<const SampleRow> draws);

 private:
  Device& device_;
  std::span<TokenId> ids_;          ///< [max_rows] on the device
  std::vector<TokenId> host_copy_;  ///< the tokens that were chosen last
};

}  // namespace baleen
