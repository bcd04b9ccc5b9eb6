#include "numeric/latent_row.h"

#include <cstring>

#include "base/check.h"
#include "numeric/bf16_array.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {

void encode_latent_row(const LatentFormat& format, std::byte* page, int rows_per_page, int row,
                       std::span<const float> values) {
  BALEEN_DCHECK(static_cast<int>(values.size()) == format.width());
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
  auto* codes = reinterpret_cast<std::uint8_t*>(data);
  auto* scales = reinterpret_cast<std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                 row * format.scale_bytes());
  for (int block = 0; block < format.num_scales(); ++block) {
    const auto begin = static_cast<std::size_t>(block) * kLatentBlock;
    scales[block] = quantise_fp8_block(values.subspan(begin, kLatentBlock), {codes + begin, kLatentBlock});
  }
  store_bf16(data + format.nope, values.subspan(static_cast<std::size_t>(format.nope)));
}

void decode_latent_row(const LatentFormat& format, const std::byte* page, int rows_per_page, int row,
                       std::span<float> values) {
  BALEEN_DCHECK(static_cast<int>(values.size()) == format.width());
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
  const auto* codes = reinterpret_cast<const std::uint8_t*>(data);
  const auto* scales = reinterpret_cast<const std::uint8_t*>(page + rows_per_page * format.data_bytes() +
                                                             row * format.scale_bytes());
  for (int i = 0; i < format.nope; ++i) {
    values[static_cast<std::size_t>(i)] = e4m3_to_float(codes[i]) * e8m0_to_float(scales[i / kLatentBlock]);
  }
  load_bf16(data + format.nope, values.subspan(static_cast<std::size_t>(format.nope)));
}

}  // namespace baleen
