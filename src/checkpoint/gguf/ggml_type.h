/// How tensors of GGUF files are stored: types by the ids that files have, each a block of elements in so
/// many bytes. (source: ggml's type list; releases specification 4.1, 9.D)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace baleen {

enum class GgmlType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2K = 10,
  kQ3K = 11,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14,
  kQ8K = 15,
  kIq2Xxs = 16,
  kIq2Xs = 17,
  kIq3Xxs = 18,
  kIq1S = 19,
  kIq4Nl = 20,
  kIq3S = 21,
  kIq2S = 22,
  kIq4Xs = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIq1M = 29,
  kBF16 = 30,
  kTq1_0 = 34,
  kTq2_0 = 35,
  kMxfp4 = 39
};

struct GgmlTypeTraits {
  GgmlType type = GgmlType::kF32;
  std::string_view name;  ///< "Q8_0", as file names and llama.cpp have it
  std::int64_t block_elements = 1;
  std::int64_t block_bytes = 4;
};

/// Null for an id that no tensor may have: why is `ggml_type_refusal`.
[[nodiscard]] const GgmlTypeTraits* find_ggml_type(std::uint32_t id);
[[nodiscard]] const GgmlTypeTraits& ggml_type_traits(GgmlType type);

/// What is known of an id without traits: `id 41 (Q1_0 to llama.cpp, another type to forks of ds4)`.
[[nodiscard]] std::string ggml_type_refusal(std::uint32_t id);

}  // namespace baleen
