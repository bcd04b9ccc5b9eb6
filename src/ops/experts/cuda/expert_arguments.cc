#include <algorithm>

#include "base/check.h"
#include "ops/experts/cuda/expert_layout.h"

namespace baleen::BALEEN_ARCH {

std::int64_t DispatchExtents::first_shared_row() const {
  const std::int64_t experts = std::min(num_slots(), num_experts);  // that are active at most
  return (num_slots() + (kRowAlignment - 1) * experts + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

std::int64_t DispatchExtents::max_tiles() const {
  const std::int64_t routed = std::min(num_slots(), num_experts + num_slots() / tile_tokens);
  return routed + (num_shared + tile_tokens - 1) / tile_tokens;
}

namespace {

void check_matrix(const WeightMatrix& matrix, WeightFormat format, std::int64_t rows, std::int64_t cols) {
  BALEEN_CHECK(matrix.format == format);
  BALEEN_CHECK_EQ(matrix.rows, rows);
  BALEEN_CHECK_EQ(matrix.cols, cols);
  BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(matrix.data) % 16, 0);
}

void check_expert(const ExpertWeights& expert, WeightFormat format, std::int64_t width,
                  std::int64_t inner_width) {
  check_matrix(expert.w1, format, inner_width, width);
  check_matrix(expert.w3, format, inner_width, width);
  check_matrix(expert.w2, format, width, inner_width);
}

}  // namespace

const std::int32_t* device_places(const ExpertsArgs& args) {
  return args.places.copied != nullptr ? args.places.copied : args.places.of_expert;
}

void check_expert_arguments(const ExpertsArgs& args, WeightFormat shared_format) {
  BALEEN_CHECK(args.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(args.ids.extent(0), args.x.extent(0));
  BALEEN_CHECK(args.x.dense() && args.ids.dense() && args.weights.dense() && args.out.dense());
  const ExpertWeights& first = args.routed[0];
  const std::int64_t width = first.w1.cols, inner_width = first.w1.rows;
  BALEEN_CHECK_EQ(args.x.extent(1), width);
  BALEEN_CHECK_EQ(width % kActivationGroup, 0);
  BALEEN_CHECK_EQ(inner_width % kActivationGroup, 0);
  check_expert(first, first.w1.format, width, inner_width);
  if (args.shared != nullptr) {
    BALEEN_CHECK_EQ(args.shared->w1.rows % kActivationGroup, 0);
    if (!args.split.any()) BALEEN_CHECK_EQ(args.shared->w1.rows, inner_width);
    check_expert(*args.shared, shared_format, width, args.shared->w1.rows);
  }
  BALEEN_CHECK(args.partial_sums || !args.split.any());
}

std::int64_t inner_pitch_of(const ExpertsArgs& args) {
  return std::max(args.routed[0].w1.rows, args.shared != nullptr ? args.shared->w1.rows : 0);
}

}  // namespace baleen::BALEEN_ARCH
