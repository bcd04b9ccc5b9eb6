#include <cmath>
#include <vector>

#include "numeric/bf16.h"
#include "ops/kv_store/kv_store.h"
#include "ops/rope/rope_frequencies.h"

namespace baleen {

void kv_store_ref(const KvStoreArgs& args) {
  const LatentPool& pool = args.window;
  const auto width = static_cast<std::size_t>(pool.format.width());
  const auto round = [&](double value) {
    const auto single = static_cast<float>(value);
    return pool.format.precision == Precision::kExact ? single : round_bf16(single);
  };
  for (std::int64_t row = 0; row < args.kv.extent(0); ++row) {
    const std::span<const float> x = args.kv.row(row);
    double squares = 0.0;
    for (const float value : x) squares += static_cast<double>(value) * value;
    const double inverse =
        1.0 / std::sqrt(squares / static_cast<double>(width) + static_cast<double>(args.eps));
    std::vector<float> y(width);
    for (std::size_t i = 0; i < width; ++i)
      y[i] = round(static_cast<double>(args.weight[i]) * x[i] * inverse);

    const std::span<float> rotated = std::span(y).subspan(static_cast<std::size_t>(pool.format.nope));
    rotate_pairs(rotated, args.cosine.row(row), args.sine.row(row));
    for (float& value : rotated) value = round(value);

    const SequenceSlice& slice = args.batch.slice_of(row);
    const std::int64_t position = slice.start + row - slice.first_row;
    const PageId page = slice.window_pages[static_cast<std::size_t>(position / pool.rows_per_page)];
    encode_latent_row(pool.format, pool.page(static_cast<std::int64_t>(page)), pool.rows_per_page,
                      static_cast<int>(position % pool.rows_per_page), y);
  }
}

}  // namespace baleen
