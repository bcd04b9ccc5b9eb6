#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "model/weight_binding.h"
#include "model/weight_checks.h"
#include "numeric/bf16.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

// Scales are a sixteenth of FP4 weights. Up to here reading them all takes milliseconds.
constexpr std::int64_t kScaleBytesReadAtLoad = 16 << 20;

/// Element by element to `dtype`, float32 or int32.
void convert(const TensorInfo& tensor, DType dtype, std::byte* to) {
  const auto stored_bytes = static_cast<std::size_t>(dtype_bytes(tensor.dtype));
  const auto element = [&]<class T>(std::int64_t i, T /*type*/) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + static_cast<std::size_t>(i) * stored_bytes, sizeof(T));
    return value;
  };
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (dtype == DType::kI32) {
      const auto id = static_cast<std::int32_t>(element(i, std::int64_t{}));
      std::memcpy(to + i * std::int64_t{sizeof(id)}, &id, sizeof(id));
      continue;
    }
    BALEEN_CHECK(dtype == DType::kF32 && (tensor.dtype == DType::kBF16 || tensor.dtype == DType::kF8E8M0));
    const float value = tensor.dtype == DType::kBF16 ? bf16_to_float(element(i, Bf16Bits{}))
                                                     : e8m0_to_float(element(i, std::uint8_t{}));
    std::memcpy(to + i * std::int64_t{sizeof(value)}, &value, sizeof(value));
  }
}

}  // namespace

ModelWeights::ModelWeights(const std::filesystem::path& folder) : ModelWeights(open_model_folder(folder)) {}

ModelWeights::ModelWeights(ModelFolder folder)
    : config_(std::move(folder.config)), checkpoint_(std::move(folder.checkpoint)) {
  check_tensors(folder.stored, checkpoint_);  // tensors of a draft head that is not run as well
  bind();
}

ModelWeights::ModelWeights(ModelConfig config, Checkpoint checkpoint)
    : config_(std::move(config)), checkpoint_(std::move(checkpoint)) {
  check_tensors(config_, checkpoint_);
  bind();
}

void ModelWeights::bind() {
  const std::vector<TensorSpec> table = tensor_table(config_);
  const StorageFormats formats = detect_formats(config_, checkpoint_);
  check_scales(table, formats);
  mapped_bytes_ = stored_bytes(table, formats);
  tree_ = bind_weights(config_, table, formats, [this](const HeldArray& held) { return array(held); });
  tree_.made = checkpoint_.made();
}

void ModelWeights::check_scales(const std::vector<TensorSpec>& table, const StorageFormats& formats) const {
  std::vector<std::pair<const TensorInfo*, WeightFormat>> scales, of_experts;
  std::int64_t num_bytes = 0;
  for (const TensorSpec& spec : table) {
    if (!spec.place.exists()) continue;  // a table's are billions, of which a token reads a few
    const std::vector<TensorHeader> stored = stored_tensors(spec, formats);
    for (std::size_t i = 1; i < stored.size(); ++i) {
      const TensorInfo& scale = checkpoint_.at(stored[i].name);
      (spec.storage == Storage::kExpert ? of_experts : scales).emplace_back(&scale, formats.of(spec));
      num_bytes += scale.size_bytes();
    }
  }
  const auto check = [this](const auto& all) {
    for (const auto& [scale, format] : all) {
      const AcquiredBytes acquired(checkpoint_.made().get(), scale->bytes);
      check_scale(*scale, format);
    }
  };
  check(scales);
  if (num_bytes <= kScaleBytesReadAtLoad) check(of_experts);
}

const std::byte* ModelWeights::array(const HeldArray& array) {
  const TensorInfo& tensor = checkpoint_.at(array.stored.name);
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
  if (array.dtype == tensor.dtype && address % static_cast<std::uintptr_t>(array.alignment) == 0)
    return tensor.bytes.data();
  const AcquiredBytes acquired(checkpoint_.made().get(), tensor.bytes);
  if (array.dtype == DType::kI32) check_hash_table(tensor, config_);
  std::vector<std::byte>& own = owned_.emplace_back(static_cast<std::size_t>(array.size_bytes()));
  if (array.dtype == tensor.dtype) {
    std::ranges::copy(tensor.bytes, own.begin());
  } else {
    convert(tensor, array.dtype, own.data());
  }
  owned_bytes_ += array.size_bytes();
  return own.data();
}

}  // namespace baleen
