#include "model/weight_checks.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

template <class T>
T element(std::span<const std::byte> bytes, std::int64_t idx) {
  T value;
  std::memcpy(&value, bytes.data() + idx * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

}  // namespace

void check_scale(const TensorInfo& scale, WeightFormat format) {
  if (scale.dtype == DType::kF8E8M0) {
    if (scale.bytes.empty()) return;
    const void* found = std::memchr(scale.bytes.data(), kE8m0NaN, scale.bytes.size());
    if (found == nullptr) return;
    fail(
        "tensor \"{}\" in {}: scale {} is NaN (E8M0 code 255), expected a power of two; is the file damaged?",
        scale.name, scale.file, static_cast<const std::byte*>(found) - scale.bytes.data());
  }
  if (scale.dtype == DType::kF8E4M3) {
    for (std::int64_t i = 0; i < scale.num_elements(); ++i) {
      const float value = e4m3_to_float(element<std::uint8_t>(scale.bytes, i));
      if (value >= 0) continue;  // of weights that are all zero it is 0
      fail(
          "tensor \"{}\" in {}: scale {} is {}, expected a number that is not negative; is the file damaged?",
          scale.name, scale.file, i, value);
    }
    return;
  }
  BALEEN_CHECK(scale.dtype == DType::kF32);
  for (std::int64_t i = 0; i < scale.num_elements(); ++i) {
    const auto value = element<float>(scale.bytes, i);
    const bool is_fine = format == WeightFormat::kQ8 ? value >= 0 : value > 0;
    if (!is_fine || std::isinf(value)) {
      fail("tensor \"{}\" in {}: scale {} is {}, expected a positive number; is the file damaged?",
           scale.name, scale.file, i, value);
    }
  }
}

void check_hash_table(const TensorInfo& table, const ModelConfig& config) {
  BALEEN_CHECK(table.dtype == DType::kI64);
  const std::int64_t k = config.num_experts_per_tok;
  for (std::int64_t i = 0; i < table.num_elements(); ++i) {
    const auto expert = element<std::int64_t>(table.bytes, i);
    if (expert < 0 || expert >= config.n_routed_experts) {
      fail("tensor \"{}\" in {}: token {} is routed to expert {}, expected 0 to {}; is the file damaged?",
           table.name, table.file, i / k, expert, config.n_routed_experts - 1);
    }
    for (std::int64_t j = i / k * k; j < i; ++j) {
      if (element<std::int64_t>(table.bytes, j) == expert) {
        fail("tensor \"{}\" in {}: token {} is routed twice to expert {}; is the file damaged?", table.name,
             table.file, i / k, expert);
      }
    }
  }
}

}  // namespace baleen
