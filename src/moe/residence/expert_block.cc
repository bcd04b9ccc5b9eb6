#include "moe/residence/expert_block.h"

#include <utility>

#include "base/check.h"

namespace baleen {
namespace {

constexpr std::int64_t kBlockUnit = std::int64_t{4} << 10;
constexpr std::array<WeightMatrix ExpertWeights::*, 3> kMatrices{&ExpertWeights::w1, &ExpertWeights::w3,
                                                                 &ExpertWeights::w2};

constexpr std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

ExpertWeights shape_of(const ModelConfig& config, WeightFormat format) {
  const WeightMatrix up{.format = format,
                        .rows = config.moe_intermediate_size,
                        .cols = config.hidden_size,
                        .activation_group = config.activation_group()};
  WeightMatrix down = up;
  std::swap(down.rows, down.cols);
  return {.w1 = up, .w2 = down, .w3 = up};
}

/// Array `piece` of an expert, in the order of `ExpertBlock::pieces`.
std::span<const std::byte> array_of(const ExpertWeights& expert, std::size_t piece) {
  const WeightMatrix& matrix = expert.*kMatrices[piece % kMatrices.size()];
  const auto bytes = [](const std::byte* data, std::int64_t size) {
    return std::span(data, static_cast<std::size_t>(size));
  };
  if (piece < kMatrices.size()) return bytes(matrix.data, matrix.size_bytes());
  if (piece < 2 * kMatrices.size()) return bytes(matrix.scales(), matrix.scale_bytes());
  return bytes(reinterpret_cast<const std::byte*>(matrix.matrix_scale), matrix.matrix_scale_bytes());
}

}  // namespace

ExpertBlock::ExpertBlock(const ExpertWeights& like) : shape_(like) {
  for (WeightMatrix ExpertWeights::*const which : kMatrices) {
    WeightMatrix& matrix = shape_.*which;
    matrix.data = nullptr;
    matrix.set_scales(nullptr);
    matrix.set_matrix_scale(nullptr);
  }
  for (std::size_t i = 0; i < kNumPieces; ++i) {
    offsets_[i] = bytes_;
    bytes_ += rounded_up(std::ssize(array_of(shape_, i)), kAlignment);
  }
  bytes_ = rounded_up(bytes_, kBlockUnit);
}

ExpertBlock::ExpertBlock(const ModelConfig& config, WeightFormat format)
    : ExpertBlock(shape_of(config, format)) {}

ExpertWeights ExpertBlock::at(const std::byte* block) const {
  ExpertWeights expert = shape_;
  for (std::size_t i = 0; i < kMatrices.size(); ++i) {
    WeightMatrix& matrix = expert.*kMatrices[i];
    matrix.data = block + offsets_[i];
    matrix.set_scales(block + offsets_[kMatrices.size() + i]);
    matrix.set_matrix_scale(block + offsets_[2 * kMatrices.size() + i]);
  }
  return expert;
}

std::array<ExpertBlock::Piece, ExpertBlock::kNumPieces> ExpertBlock::pieces(
    const ExpertWeights& expert) const {
  for (WeightMatrix ExpertWeights::*const which : kMatrices) {
    const WeightMatrix& matrix = expert.*which;
    const WeightMatrix& shape = shape_.*which;
    BALEEN_CHECK(matrix.format == shape.format && matrix.rows == shape.rows && matrix.cols == shape.cols);
  }
  std::array<Piece, kNumPieces> pieces;
  for (std::size_t i = 0; i < kNumPieces; ++i) pieces[i] = {array_of(expert, i), offsets_[i]};
  return pieces;
}

}  // namespace baleen
