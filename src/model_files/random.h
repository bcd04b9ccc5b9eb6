/// Random numbers by counter: element i of a tensor depends on the seed, the tensor's name and i alone, so
/// any thread may make any part of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace baleen {

class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::string_view tensor_name) : key_(mix(seed + kStep)) {
    for (const char letter : tensor_name) key_ = mix((key_ ^ static_cast<unsigned char>(letter)) + kStep);
  }

  [[nodiscard]] std::uint64_t bits(std::uint64_t idx) const { return mix(key_ + idx * kStep); }

  /// Mean 0, variance 1, near enough to normal for weights: the sum of four uniforms, within +-3.46. A
  /// quarter of the time of the exact transform, which would bound the speed of `init`.
  [[nodiscard]] float normal(std::uint64_t idx) const {
    constexpr float kMean = 4 * 65535 / 2.0F;
    constexpr float kInverseDeviation = 1.0F / 37837.2F;  // sqrt(4 * (2^32 - 1) / 12)
    const std::uint64_t four = bits(idx);
    const auto sum = static_cast<std::int32_t>((four & 0xFFFF) + (four >> 16 & 0xFFFF) +
                                               (four >> 32 & 0xFFFF) + (four >> 48));
    return (static_cast<float>(sum) - kMean) * kInverseDeviation;
  }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15u;  // 2^64 over the golden ratio

  /// SplitMix64's output function (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
  [[nodiscard]] static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::uint64_t key_;
};

}  // namespace baleen
