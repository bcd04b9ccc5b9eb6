#include "model/weights.h"

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "model/weight_checks.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

// Scales are a sixteenth of FP4 weights. Up to here reading them all takes milliseconds.
constexpr std::int64_t kScaleBytesReadAtLoad = 16 << 20;

bool is_scale(const TensorInfo& tensor) {
  return tensor.dtype == DType::kF8E8M0 || tensor.name.ends_with(".scale");
}

}  // namespace

ModelWeights::ModelWeights(const std::filesystem::path& folder) : ModelWeights(open_model_folder(folder)) {}

ModelWeights::ModelWeights(ModelFolder folder)
    : ModelWeights(std::move(folder.config), std::move(folder.checkpoint)) {}

ModelWeights::ModelWeights(ModelConfig config, Checkpoint checkpoint)
    : config_(std::move(config)), checkpoint_(std::move(checkpoint)) {
  check_tensors(config_, checkpoint_);
  check_scales();
  for (const TensorInfo& tensor : checkpoint_.tensors())
    if (is_used(tensor)) mapped_bytes_ += tensor.size_bytes();

  tree_ = bind_weights(config_, {}, *this);
}

bool ModelWeights::is_used(const TensorInfo& tensor) const {
  return !is_left_out(tensor.name, config_.num_nextn_predict_layers);
}

void ModelWeights::check_scales() const {
  std::int64_t total = 0;
  for (const TensorInfo& tensor : checkpoint_.tensors()) {
    if (is_scale(tensor) && is_used(tensor)) total += tensor.size_bytes();
  }
  for (const TensorInfo& tensor : checkpoint_.tensors()) {
    const bool expert = tensor.name.find(".experts.") != std::string::npos;
    if (is_scale(tensor) && is_used(tensor) && (!expert || total <= kScaleBytesReadAtLoad))
      check_scale(tensor);
  }
}

std::span<const float> ModelWeights::as_float32(const TensorInfo& tensor) {
  std::vector<float>& values = floats_.emplace_back(static_cast<std::size_t>(tensor.num_elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::byte* from = tensor.bytes.data() + i * static_cast<std::size_t>(dtype_bytes(tensor.dtype));
    if (tensor.dtype == DType::kF32) {
      std::memcpy(&values[i], from, sizeof(float));
    } else if (tensor.dtype == DType::kBF16) {
      Bf16Bits bits;
      std::memcpy(&bits, from, sizeof(bits));
      values[i] = bf16_to_float(bits);
    } else {
      BALEEN_CHECK(tensor.dtype == DType::kF8E8M0);
      values[i] = e8m0_to_float(static_cast<std::uint8_t>(*from));
    }
  }
  owned_bytes_ += static_cast<std::int64_t>(values.size() * sizeof(float));
  return values;
}

std::span<const float> ModelWeights::vector(const std::string& name) {
  return as_float32(checkpoint_.at(name));
}

WeightMatrix ModelWeights::matrix(const std::string& stem) {
  const TensorInfo& tensor = checkpoint_.at(stem + ".weight");
  WeightMatrix weight{.rows = tensor.shape[0], .cols = tensor.shape[1], .data = tensor.bytes.data()};
  switch (tensor.dtype) {
    case DType::kBF16:
      weight.format = WeightFormat::kBF16;
      break;
    case DType::kF32:
      weight.format = WeightFormat::kF32;
      break;
    case DType::kF8E4M3:
      weight.format = WeightFormat::kFp8;
      weight.block_scales = vector(stem + ".scale").data();
      break;
    case DType::kI8:
      weight.format = WeightFormat::kFp4;
      weight.cols *= 2;
      weight.group_scales =
          reinterpret_cast<const std::uint8_t*>(checkpoint_.at(stem + ".scale").bytes.data());
      break;
    default:
      fail("{}: tensor \"{}\": {} cannot be a matrix", tensor.file, tensor.name, tensor.type_text());
  }
  return weight;
}

View<const float, 2> ModelWeights::table(const std::string& name) {
  const TensorInfo& tensor = checkpoint_.at(name);
  const auto* values = reinterpret_cast<const float*>(tensor.bytes.data());
  if (reinterpret_cast<std::uintptr_t>(values) % alignof(float) != 0) values = as_float32(tensor).data();
  return {values, {tensor.shape[0], tensor.shape[1]}};
}

View<const Bf16Bits, 2> ModelWeights::embedding(const std::string& name) {
  const TensorInfo& tensor = checkpoint_.at(name);
  const auto* rows = reinterpret_cast<const Bf16Bits*>(tensor.bytes.data());
  if (reinterpret_cast<std::uintptr_t>(rows) % alignof(Bf16Bits) != 0) {
    realigned_.emplace_back(tensor.bytes.size() / sizeof(Bf16Bits));
    std::memcpy(realigned_.back().data(), tensor.bytes.data(), tensor.bytes.size());
    owned_bytes_ += static_cast<std::int64_t>(tensor.bytes.size());
    rows = realigned_.back().data();
  }
  return {rows, {tensor.shape[0], tensor.shape[1]}};
}

View<const std::int32_t, 2> ModelWeights::hash_table(const std::string& name) {
  const TensorInfo& tensor = checkpoint_.at(name);
  check_hash_table(tensor, config_);
  std::vector<std::int32_t>& table = tables_.emplace_back(static_cast<std::size_t>(tensor.num_elements()));
  for (std::size_t i = 0; i < table.size(); ++i) {
    std::int64_t id;
    std::memcpy(&id, tensor.bytes.data() + i * sizeof(id), sizeof(id));
    table[i] = static_cast<std::int32_t>(id);
  }
  owned_bytes_ += static_cast<std::int64_t>(table.size() * sizeof(std::int32_t));
  return {table.data(), {tensor.shape[0], tensor.shape[1]}};
}

}  // namespace baleen
