// Config against tensors, and tensors against what their values may be.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "checkpoint/checkpoint_writer.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "model/weight_checks.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using test::TemporaryFolder;

std::vector<TensorHeader> stored_table(const ModelConfig& config, const StorageFormats& formats) {
  std::vector<TensorHeader> tensors;
  for (const TensorSpec& spec : tensor_table(config)) {
    for (const TensorHeader& tensor : stored_tensors(spec, formats)) tensors.push_back(tensor);
  }
  return tensors;
}

/// All weights zero: only headers count here.
Checkpoint write_zeros(const std::filesystem::path& folder, const std::vector<TensorHeader>& tensors) {
  CheckpointWriter writer(folder, tensors, INT64_MAX);
  for (const TensorHeader& tensor : writer.order()) {
    writer.append(tensor.name, std::vector<std::byte>(static_cast<std::size_t>(tensor.size_bytes())));
  }
  writer.finish({});
  return Checkpoint(folder);
}

ModelConfig small_config() { return with_experts(with_layers(preset_config("tiny-flash"), 3), 2); }

TEST(Mismatches, EveryFormatIsRecognised) {
  const ModelConfig config = small_config();
  const StorageFormats all[] = {
      {},
      {.experts = WeightFormat::kFp8},
      {.experts = WeightFormat::kFp8, .expert_scale = DType::kF32},  // Base checkpoints
      {.experts = WeightFormat::kFp8, .dense_scale = DType::kF32, .expert_scale = DType::kF32},
      {.dense = WeightFormat::kBF16, .experts = WeightFormat::kBF16},
  };
  for (const StorageFormats& formats : all) {
    const TemporaryFolder folder;
    const Checkpoint checkpoint = write_zeros(folder.path(), stored_table(config, formats));
    EXPECT_EQ(detect_formats(config, checkpoint), formats);
    EXPECT_EQ(mismatches(config, checkpoint), std::vector<std::string>{});
    EXPECT_NO_THROW(check_tensors(config, checkpoint));
  }
}

TEST(Mismatches, EachKindHasItsSentence) {
  const ModelConfig config = small_config();
  std::vector<TensorHeader> tensors = stored_table(config, {});
  std::erase_if(tensors, [](const TensorHeader& tensor) { return tensor.name == "norm.weight"; });
  for (TensorHeader& tensor : tensors) {
    if (tensor.name == "layers.1.ffn.gate.weight") tensor.shape = {2, 128};
    if (tensor.name == "layers.1.ffn.gate.bias") tensor.dtype = DType::kBF16;
  }
  tensors.push_back({"layers.9.attn.attn_sink", DType::kF32, {4}});
  const TemporaryFolder folder;
  const Checkpoint checkpoint = write_zeros(folder.path(), tensors);
  const std::string file = (folder / "model.safetensors").string();
  EXPECT_EQ(
      mismatches(config, checkpoint),
      (std::vector<std::string>{
          "tensor \"layers.1.ffn.gate.weight\" in " + file + ": BF16 [2, 128], config wants BF16 [2, 256]",
          "tensor \"layers.1.ffn.gate.bias\" in " + file + ": BF16 [2], config wants F32 [2]",
          "tensor \"norm.weight\": missing, config wants BF16 [256]",
          "tensor \"layers.9.attn.attn_sink\" in " + file + ": F32 [4], but the config has no such tensor"}));
  try {
    check_tensors(config, checkpoint);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("and 1 more"), std::string::npos) << error.what();
  }
}

template <class T>
TensorInfo tensor_of(DType dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  TensorInfo tensor;
  tensor.name = "x.scale";
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.bytes = std::as_bytes(std::span(values));
  tensor.file = "f.safetensors";
  return tensor;
}

std::string scale_refusal(const TensorInfo& scale) {
  try {
    check_scale(scale);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(WeightChecks, NaNScales) {
  const std::vector<std::uint8_t> good{0, 127, 254}, bad{0, 255, 254};
  EXPECT_EQ(scale_refusal(tensor_of(DType::kF8E8M0, {3}, good)), "");
  EXPECT_NE(scale_refusal(tensor_of(DType::kF8E8M0, {3}, bad)).find("scale 1 is NaN"), std::string::npos);
  EXPECT_EQ(scale_refusal(tensor_of(DType::kF8E8M0, {0}, std::vector<std::uint8_t>{})), "");
  for (const float value : {0.0F, -1.0F, std::nanf(""), HUGE_VALF}) {
    const std::vector<float> scales{1.0F, value};
    EXPECT_NE(scale_refusal(tensor_of(DType::kF32, {2}, scales)).find("scale 1 is"), std::string::npos)
        << value;
  }
}

TEST(WeightChecks, HashTables) {
  const ModelConfig config = preset_config("tiny-flash");  // 8 experts, 2 a token
  const std::vector<std::int64_t> good{0, 7, 3, 2}, outside{0, 7, 3, 8}, negative{-1, 0, 1, 2},
      twice{0, 7, 3, 3};
  EXPECT_NO_THROW(check_hash_table(tensor_of(DType::kI64, {2, 2}, good), config));
  EXPECT_THROW(check_hash_table(tensor_of(DType::kI64, {2, 2}, outside), config), Error);
  EXPECT_THROW(check_hash_table(tensor_of(DType::kI64, {2, 2}, negative), config), Error);
  EXPECT_THROW(check_hash_table(tensor_of(DType::kI64, {2, 2}, twice), config), Error);
}

}  // namespace
}  // namespace baleen
