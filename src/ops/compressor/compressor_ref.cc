#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/hadamard.h"
#include "ops/compressor/pooled_rows.h"
#include "ops/rope/rope_frequencies.h"

namespace baleen {
namespace {

void add_position_bias(const CompressorArgs& args, const SequenceSlice& slice) {
  for (std::int64_t i = 0; i < slice.num_tokens; ++i) {
    for (std::int64_t column = 0; column < args.state.width; ++column) {
      args.gate(slice.first_row + i, column) += args.ape((slice.start + i) % args.ratio, column);
    }
  }
}

std::vector<double> pool(const PooledRows& rows, std::size_t head_dim) {
  std::vector<double> pooled(head_dim);
  const auto count = static_cast<std::size_t>(rows.count);
  for (std::size_t channel = 0; channel < head_dim; ++channel) {
    double maximum = -std::numeric_limits<double>::infinity(), weights = 0.0, sum = 0.0;
    for (std::size_t i = 0; i < count; ++i) maximum = std::max<double>(maximum, rows.gate[i][channel]);
    for (std::size_t i = 0; i < count; ++i) {
      const double weight = std::exp(rows.gate[i][channel] - maximum);
      weights += weight;
      sum += weight * rows.kv[i][channel];
    }
    pooled[channel] = sum / weights;
  }
  return pooled;
}

void make_entry(const CompressorArgs& args, const SequenceSlice& slice, std::int64_t entry) {
  const auto round = [&](double value) {
    const auto single = static_cast<float>(value);
    return args.precision == Precision::kExact ? single : round_bf16(single);
  };
  const std::size_t head_dim = args.norm_weight.size();
  std::vector<double> pooled = pool(PooledRows(args, slice, entry), head_dim);
  double squares = 0.0;
  for (double& value : pooled) {
    value = round(value);
    squares += value * value;
  }
  const double inverse =
      1.0 / std::sqrt(squares / static_cast<double>(head_dim) + static_cast<double>(args.eps));
  std::vector<float> y(head_dim);
  for (std::size_t i = 0; i < head_dim; ++i)
    y[i] = round(static_cast<double>(args.norm_weight[i]) * pooled[i] * inverse);

  std::vector<float> cosine(args.frequencies.size()), sine(args.frequencies.size());
  rope_angles(args.frequencies, entry * args.ratio, cosine, sine);
  const std::span<float> rotated = std::span(y).last(2 * args.frequencies.size());
  rotate_pairs(rotated, cosine, sine);
  for (float& value : rotated) value = round(value);

  if (args.latent.base != nullptr) {
    const EntryPlace place = entry_place(args.latent, slice, entry);
    encode_latent_row(args.latent.format, place.page, args.latent.rows_per_page, place.row, y);
  } else {
    hadamard_transform(y);
    for (float& value : y) value = round(value);
    const EntryPlace place = entry_place(args.index_key, slice, entry);
    encode_index_key(args.index_key.format, place.page, args.index_key.rows_per_page, place.row, y);
  }
}

void keep_rows(const CompressorArgs& args, const SequenceSlice& slice) {
  const std::int64_t end = slice.start + slice.num_tokens;
  for (std::int64_t position = std::max(slice.start, end - args.state.ring_rows); position < end;
       ++position) {
    const std::int64_t row = slice.first_row + position - slice.start;
    std::ranges::copy(args.kv.row(row), args.state.kv_row(slice.state_slot, position));
    std::ranges::copy(args.gate.row(row), args.state.gate_row(slice.state_slot, position));
  }
}

void keep_overlap(const CompressorArgs& args, const SequenceSlice& slice) {
  for (std::int64_t i = 0; i < slice.num_tokens; ++i) {
    const std::int64_t position = slice.start + i;
    if (!is_overlap(position)) continue;
    const PageId page = slice.window_pages[static_cast<std::size_t>(position / kPageTokens)];
    for (std::int64_t column = 0; column < args.overlap.width; ++column) {
      args.overlap.kv_row(page, position)[column] = args.kv(slice.first_row + i, column);
      args.overlap.gate_row(page, position)[column] = args.gate(slice.first_row + i, column);
    }
  }
}

}  // namespace

void compressor_ref(const CompressorArgs& args) {
  for (const SequenceSlice& slice : args.batch.slices) {
    add_position_bias(args, slice);
    for (std::int64_t j = first_entry(slice, args.ratio); j < end_entry(slice, args.ratio); ++j)
      make_entry(args, slice, j);
    keep_rows(args, slice);
    if (args.overlap.base != nullptr) keep_overlap(args, slice);
  }
}

}  // namespace baleen
