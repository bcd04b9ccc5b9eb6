#include "numeric/index_key.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "numeric/bf16_array.h"
#include "numeric/e2m1.h"
#include "numeric/e8m0.h"

namespace baleen {

void encode_index_key(const IndexKeyFormat& format, std::byte* page, int rows_per_page, int row,
                      std::span<const float> values) {
  BALEEN_DCHECK(static_cast<int>(values.size()) == format.dim);
  std::byte* data = page + row * format.data_bytes();
  switch (format.precision) {
    case Precision::kExact:
      std::memcpy(data, values.data(), values.size_bytes());
      return;
    case Precision::kBf16:
      store_bf16(data, values);
      return;
    case Precision::kReleased:
      break;
  }
  auto* packed = reinterpret_cast<std::uint8_t*>(data);
  auto* scales = reinterpret_cast<std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                 row * format.scale_bytes());
  std::array<std::uint8_t, kIndexerGroup> codes;
  for (int block = 0; block < format.dim / kIndexerGroup; ++block) {
    const auto begin = static_cast<std::size_t>(block) * kIndexerGroup;
    scales[block] = quantise_fp4_block(values.subspan(begin, kIndexerGroup), codes);
    for (std::size_t i = 0; i < kIndexerGroup; i += 2) {
      packed[(begin + i) / 2] = static_cast<std::uint8_t>(codes[i] | (codes[i + 1] << 4));
    }
  }
}

void decode_index_key(const IndexKeyFormat& format, const std::byte* page, int rows_per_page, int row,
                      std::span<float> values) {
  BALEEN_DCHECK(static_cast<int>(values.size()) == format.dim);
  const std::byte* data = page + row * format.data_bytes();
  switch (format.precision) {
    case Precision::kExact:
      std::memcpy(values.data(), data, values.size_bytes());
      return;
    case Precision::kBf16:
      load_bf16(data, values);
      return;
    case Precision::kReleased:
      break;
  }
  const auto* packed = reinterpret_cast<const std::uint8_t*>(data);
  const auto* scales = reinterpret_cast<const std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                             row * format.scale_bytes());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto code = static_cast<std::uint8_t>(i % 2 == 0 ? packed[i / 2] : packed[i / 2] >> 4);
    values[i] = e2m1_to_float(code) * e8m0_to_float(scales[i / kIndexerGroup]);
  }
}

}  // namespace baleen
