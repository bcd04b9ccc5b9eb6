/// Kernels of markov. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/markov/markov.h"

namespace baleen::BALEEN_ARCH {

/// Products on the tensor cores, and with plain loops for whatever rank. A sum has another order in each, so
/// which of the two takes a head depends on its weights alone.
void markov_products(const MarkovArgs& args, CudaContext& context);
void markov_any(const MarkovArgs& args, CudaContext& context);
[[nodiscard]] std::optional<Reason> why_not_products(const MarkovArgs& args);
/// For calls of up to `max_rows` rows.
[[nodiscard]] std::int64_t markov_scratch_bytes(std::int64_t max_rows, std::int64_t rank);

[[nodiscard]] std::span<const CudaVariant<ops::Markov>> markov_variants();

}  // namespace baleen::BALEEN_ARCH
