/// Rows of a table of n-grams, dequantised and side by side: z[r, h w + j] = bf(code(row, j) s(row, j/32))
/// of row = rows[r, h], the product in float32. (source: releases specification 2.7, step 4, and 9.C; tensors
/// "engram.embed.weight" and ".scale")
#pragma once

#include <cstdint>

#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/view.h"

namespace baleen {

/// Columns of a row that share a scale.
inline constexpr std::int64_t kEngramScaleColumns = 32;

struct EngramLookupArgs {
  View<const std::int64_t, 2> rows;    ///< [R, H], each in [0, N): whoever hashes n-grams sees to that
  View<const std::uint8_t, 2> codes;   ///< [N, w] e4m3; on any memory that the device reads
  View<const std::uint8_t, 2> scales;  ///< [N, w / 32], rounded up, e8m0
  Activations<2> z;                    ///< [R, H w]

  [[nodiscard]] std::int64_t row_bytes() const { return codes.extent(1) + scales.extent(1); }
};

void engram_lookup_ref(const EngramLookupArgs& args);
void engram_lookup_cpu(const EngramLookupArgs& args, CpuContext& context);
[[nodiscard]] OpCost engram_lookup_cost(const EngramLookupArgs& args);

namespace ops {

struct EngramLookup {
  using Args = EngramLookupArgs;
  static constexpr std::string_view kName = "engram_lookup";
  [[nodiscard]] static OpCost cost(const EngramLookupArgs& args) { return engram_lookup_cost(args); }
  [[nodiscard]] static CallShape shape(const EngramLookupArgs& args);
  static void accesses(const EngramLookupArgs& args, Accesses& to);
  static void check(const EngramLookupArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<EngramLookup>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
