#include "tests/support/random_weights.h"

#include <cmath>
#include <cstring>

#include "numeric/bf16.h"

namespace baleen::test {

RandomWeight::RandomWeight(WeightFormat format, std::int64_t rows, std::int64_t cols, std::uint32_t seed,
                           int offset)
    : matrix_{.format = format, .rows = rows, .cols = cols} {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  data_.resize(static_cast<std::size_t>(rows * matrix_.row_bytes() + 64 + offset));
  auto* aligned =
      reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(data_.data()) + 63) / 64 * 64);
  std::byte* data = aligned + offset;
  const std::int64_t count = rows * cols;
  switch (format) {
    case WeightFormat::kF32:
      for (std::int64_t i = 0; i < count; ++i) {
        const float value = normal(random);
        std::memcpy(data + 4 * i, &value, 4);
      }
      break;
    case WeightFormat::kBF16:
      for (std::int64_t i = 0; i < count; ++i) {
        const Bf16Bits bits = float_to_bf16(normal(random));
        std::memcpy(data + 2 * i, &bits, 2);
      }
      break;
    case WeightFormat::kFp8:
      for (std::int64_t i = 0; i < count; ++i) {
        const auto code = static_cast<std::uint8_t>(random());
        data[i] = static_cast<std::byte>((code & 0x7F) == 0x7F ? 0x7E : code);
      }
      block_scales_.resize(static_cast<std::size_t>((rows + 127) / 128 * ((cols + 127) / 128)));
      for (float& scale : block_scales_) scale = std::ldexp(1.0F, -9 + static_cast<int>(random() % 4));
      matrix_.block_scales = block_scales_.data();
      break;
    case WeightFormat::kFp8x32:
      for (std::int64_t i = 0; i < count; ++i) {
        const auto code = static_cast<std::uint8_t>(random());
        data[i] = static_cast<std::byte>((code & 0x7F) == 0x7F ? 0x7E : code);
      }
      group_scales_.resize(static_cast<std::size_t>(matrix_.num_scales()));
      for (std::uint8_t& scale : group_scales_) scale = static_cast<std::uint8_t>(118 + random() % 4);
      matrix_.group_scales = group_scales_.data();
      matrix_.activation_group = kSmallActivationGroup;
      break;
    case WeightFormat::kFp4:
      for (std::int64_t i = 0; i < count / 2; ++i) data[i] = static_cast<std::byte>(random());
      group_scales_.resize(static_cast<std::size_t>(rows * (cols / 32)));
      for (std::uint8_t& scale : group_scales_) scale = static_cast<std::uint8_t>(124 + random() % 5);
      matrix_.group_scales = group_scales_.data();
      break;
    case WeightFormat::kNvfp4:
      for (std::int64_t i = 0; i < count / 2; ++i) data[i] = static_cast<std::byte>(random());
      group_scales_.resize(static_cast<std::size_t>(rows * (cols / 16)));
      for (std::uint8_t& scale : group_scales_) scale = static_cast<std::uint8_t>(random() % 64);
      matrix_.group_scales = group_scales_.data();
      matrix_scale_ = 0.03F + 0.01F * static_cast<float>(random() % 8);  // no power of two
      matrix_.matrix_scale = &matrix_scale_;
      break;
    case WeightFormat::kQ8:
      for (std::int64_t i = 0; i < count; ++i) data[i] = static_cast<std::byte>(random());
      block_scales_.resize(static_cast<std::size_t>(rows * (cols / 32)));
      for (float& scale : block_scales_)
        scale = std::ldexp(1.0F + static_cast<float>(random() % 1024) / 1024.0F,
                           -8 - static_cast<int>(random() % 4));
      matrix_.block_scales = block_scales_.data();
      break;
    case WeightFormat::kInt8:
      for (std::int64_t i = 0; i < count; ++i)
        data[i] = static_cast<std::byte>(kInt8Offset + static_cast<int>(random() % 127) - 63);
      group_scales_.resize(static_cast<std::size_t>(rows * (cols / 32)));
      for (std::uint8_t& scale : group_scales_) scale = static_cast<std::uint8_t>(120 + random() % 5);
      matrix_.group_scales = group_scales_.data();
      break;
  }
  matrix_.data = data;
}

std::vector<float> random_values(std::size_t count, std::uint32_t seed, float deviation) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace baleen::test
