#include "checkpoint/gguf/ggml_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace baleen {
namespace {

constexpr std::array<GgmlTypeTraits, 32> kTypes{{
    {GgmlType::kF32, "F32", 1, 4},
    {GgmlType::kF16, "F16", 1, 2},
    {GgmlType::kQ4_0, "Q4_0", 32, 18},
    {GgmlType::kQ4_1, "Q4_1", 32, 20},
    {GgmlType::kQ5_0, "Q5_0", 32, 22},
    {GgmlType::kQ5_1, "Q5_1", 32, 24},
    {GgmlType::kQ8_0, "Q8_0", 32, 34},
    {GgmlType::kQ8_1, "Q8_1", 32, 36},
    {GgmlType::kQ2K, "Q2_K", 256, 84},
    {GgmlType::kQ3K, "Q3_K", 256, 110},
    {GgmlType::kQ4K, "Q4_K", 256, 144},
    {GgmlType::kQ5K, "Q5_K", 256, 176},
    {GgmlType::kQ6K, "Q6_K", 256, 210},
    {GgmlType::kQ8K, "Q8_K", 256, 292},
    {GgmlType::kIq2Xxs, "IQ2_XXS", 256, 66},
    {GgmlType::kIq2Xs, "IQ2_XS", 256, 74},
    {GgmlType::kIq3Xxs, "IQ3_XXS", 256, 98},
    {GgmlType::kIq1S, "IQ1_S", 256, 50},
    {GgmlType::kIq4Nl, "IQ4_NL", 32, 18},
    {GgmlType::kIq3S, "IQ3_S", 256, 110},
    {GgmlType::kIq2S, "IQ2_S", 256, 82},
    {GgmlType::kIq4Xs, "IQ4_XS", 256, 136},
    {GgmlType::kI8, "I8", 1, 1},
    {GgmlType::kI16, "I16", 1, 2},
    {GgmlType::kI32, "I32", 1, 4},
    {GgmlType::kI64, "I64", 1, 8},
    {GgmlType::kF64, "F64", 1, 8},
    {GgmlType::kIq1M, "IQ1_M", 256, 56},
    {GgmlType::kBF16, "BF16", 1, 2},
    {GgmlType::kTq1_0, "TQ1_0", 256, 54},
    {GgmlType::kTq2_0, "TQ2_0", 256, 66},
    {GgmlType::kMxfp4, "MXFP4", 32, 17},
}};

}  // namespace

const GgmlTypeTraits* find_ggml_type(std::uint32_t id) {
  const auto* const found = std::ranges::find(kTypes, static_cast<GgmlType>(id), &GgmlTypeTraits::type);
  return found == kTypes.end() ? nullptr : found;
}

const GgmlTypeTraits& ggml_type_traits(GgmlType type) {
  const GgmlTypeTraits* const traits = find_ggml_type(static_cast<std::uint32_t>(type));
  BALEEN_CHECK(traits != nullptr);
  return *traits;
}

std::string ggml_type_refusal(std::uint32_t id) {
  const bool removed = id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38);
  if (removed) return fmt::format("id {} (a type that llama.cpp has given up)", id);
  // Two projects write these ids with different meanings, and no key says which.
  if (id == 40) return "id 40 (NVFP4 to llama.cpp, another type to forks of ds4)";
  if (id == 41) return "id 41 (Q1_0 to llama.cpp, another type to forks of ds4)";
  return fmt::format("id {}", id);
}

}  // namespace baleen
