#include "moe/residence/expert_block.h"

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
  const WeightMatrix up{.format = format, .rows = config.moe_intermediate_size, .cols = config.hidden_size};
  const WeightMatrix down{.format = format, .rows = config.hidden_size, .cols = config.moe_intermediate_size};
  return {.w1 = up, .w2 = down, .w3 = up};
}

}  // namespace

ExpertBlock::ExpertBlock(const ExpertWeights& like) : shape_(like) {
  for (std::size_t i = 0; i < kMatrices.size(); ++i) {
    WeightMatrix& matrix = shape_.*kMatrices[i];
    matrix.data = nullptr;
    matrix.set_scales(nullptr);
    offsets_[i] = bytes_;
    bytes_ += rounded_up(matrix.size_bytes(), kAlignment);
  }
  for (std::size_t i = 0; i < kMatrices.size(); ++i) {
    offsets_[kMatrices.size() + i] = bytes_;
    bytes_ += rounded_up((shape_.*kMatrices[i]).scale_bytes(), kAlignment);
  }
  bytes_ = rounded_up(bytes_, kBlockUnit);
}

ExpertBlock::ExpertBlock(const ModelConfig& config, const StorageFormats& formats)
    : ExpertBlock(shape_of(config, formats.experts)) {}

ExpertWeights ExpertBlock::at(const std::byte* block) const {
  ExpertWeights expert = shape_;
  for (std::size_t i = 0; i < kMatrices.size(); ++i) {
    WeightMatrix& matrix = expert.*kMatrices[i];
    matrix.data = block + offsets_[i];
    matrix.set_scales(block + offsets_[kMatrices.size() + i]);
  }
  return expert;
}

std::array<ExpertBlock::Piece, 6> ExpertBlock::pieces(const ExpertWeights& expert) const {
  std::array<Piece, 6> pieces;
  for (std::size_t i = 0; i < kMatrices.size(); ++i) {
    const WeightMatrix& matrix = expert.*kMatrices[i];
    const WeightMatrix& shape = shape_.*kMatrices[i];
    BALEEN_CHECK(matrix.format == shape.format && matrix.rows == shape.rows && matrix.cols == shape.cols);
    pieces[i] = {{matrix.data, static_cast<std::size_t>(matrix.size_bytes())}, offsets_[i]};
    const std::size_t scale = kMatrices.size() + i;
    pieces[scale] = {{matrix.scales(), static_cast<std::size_t>(matrix.scale_bytes())}, offsets_[scale]};
  }
  return pieces;
}

}  // namespace baleen
