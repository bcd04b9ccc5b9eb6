/// The tables of GGUF's IQ types: which rows of magnitudes there are. A row is packed in 16 bits, the first
/// element in the lowest ones. (source: data of the format, as llama.cpp ships it)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace baleen {

/// Eight elements of two bits.
template <std::size_t kRows>
struct TwoBitGrid {
  static constexpr int kWidth = 8;
  std::array<std::uint16_t, kRows> rows;

  [[nodiscard]] float value(std::size_t row, int i) const {
    constexpr std::array<float, 4> kSteps{8, 25, 43, 0};  // no row has the last code
    return kSteps[rows[row] >> (2 * i) & 3U];
  }
};

/// Four elements of three bits, each in four.
template <std::size_t kRows>
struct ThreeBitGrid {
  static constexpr int kWidth = 4;
  std::array<float, 8> steps;
  std::array<std::uint16_t, kRows> rows;

  [[nodiscard]] float value(std::size_t row, int i) const { return steps[rows[row] >> (4 * i) & 7U]; }
};

extern const TwoBitGrid<256> kIq2XxsGrid;
extern const TwoBitGrid<512> kIq2XsGrid;
extern const TwoBitGrid<1024> kIq2SGrid;
extern const ThreeBitGrid<256> kIq3XxsGrid;
extern const ThreeBitGrid<512> kIq3SGrid;

}  // namespace baleen
