#include <cmath>
#include <vector>

#include "numeric/bf16.h"
#include "ops/compressor/step_entries.h"
#include "ops/entry_store/entry_store.h"
#include "ops/rope/rope_frequencies.h"

namespace baleen {
namespace {

float rounded(Precision precision, double value) {
  const auto single = static_cast<float>(value);
  return precision == Precision::kExact ? single : round_bf16(single);
}

std::vector<float> normalised(const EntryStoreArgs& args, std::span<const float> key) {
  double squares = 0.0;
  for (const float value : key) squares += static_cast<double>(value) * value;
  const double inverse =
      1.0 / std::sqrt(squares / static_cast<double>(key.size()) + static_cast<double>(args.eps));
  std::vector<float> y(key.size());
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] =
        rounded(args.index_keys.format.precision, static_cast<double>(args.key_norm[i]) * key[i] * inverse);
  return y;
}

void store(const EntryStoreArgs& args, const SequenceSlice& slice, std::int64_t row, std::int64_t entry) {
  std::vector<float> cosine(args.frequencies.size()), sine(args.frequencies.size());
  rope_angles(args.frequencies, entry * args.ratio, cosine, sine);
  const auto rotate = [&](std::vector<float>& values, Precision precision) {
    const std::span<float> rotated = std::span(values).last(2 * args.frequencies.size());
    rotate_pairs(rotated, cosine, sine);
    for (float& value : rotated) value = rounded(precision, value);
  };
  std::vector<float> latent(args.latent.row(row).begin(), args.latent.row(row).end());
  rotate(latent, args.entries.format.precision);
  const EntryPlace place = entry_place(args.entries, slice, entry);
  encode_latent_row(args.entries.format, place.page, args.entries.rows_per_page, place.row, latent);

  std::vector<float> key = normalised(args, args.key.row(row));
  rotate(key, args.index_keys.format.precision);
  const EntryPlace key_place = entry_place(args.index_keys, slice, entry);
  encode_index_key(args.index_keys.format, key_place.page, args.index_keys.rows_per_page, key_place.row, key);
}

}  // namespace

void entry_store_ref(const EntryStoreArgs& args) {
  for (std::int64_t row = 0; row < args.latent.extent(0); ++row) {
    const SequenceSlice& slice = args.batch.slice_of(row);
    const std::int64_t entry = entry_of_row(slice, row, args.ratio);
    if (entry >= 0) store(args, slice, row, entry);
  }
}

}  // namespace baleen
