// Checkpoints of every release that can be run give the bits of the same main model in the preview's form,
// and say what they leave out.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "drafts/heads/draft_heads.h"
#include "model/device_weights.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "model_files/convert.h"
#include "numeric/bf16.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "ops/operation/forced_variants.h"
#include "ops/operation/variant.h"
#include "tests/model/written_releases.h"
#include "tests/support/compare.h"
#include "tests/support/relative_norm.h"
#include "tests/support/releases.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

using test::EditedCheckpoint;

constexpr std::int64_t kReleaseTokens = 40;

/// The same model with FP4 experts and with FP8 experts.
class Releases : public WrittenReleases {
 protected:
  static void SetUpTestSuite() {
    WrittenReleases::SetUpTestSuite();
    fp8_ = new test::TemporaryFolder();
    ThreadPool pool(1);
    static_cast<void>(convert_checkpoint(preview(), *fp8_ / "model", {.experts = WeightFormat::kFp8}, pool));
  }
  static void TearDownTestSuite() {
    delete fp8_;
    WrittenReleases::TearDownTestSuite();
  }

  [[nodiscard]] static std::filesystem::path fp8() { return *fp8_ / "model"; }

  static std::vector<float> logits(const std::filesystem::path& model, Precision precision, bool mtp = false,
                                   std::vector<ForcedVariant> variants = {}) {
    const EngineOptions options{.precision = precision,
                                .max_batch_tokens = 64,
                                .max_logit_rows = 64,
                                .drafts = mtp,
                                .forced_variants = std::move(variants)};
    Engine engine(model, options);
    const auto tokens = test::random_tokens(kReleaseTokens, engine.config().vocab_size, 1);
    const test::SequenceLogits found = test::run_sequence(engine, tokens, 16);
    return mtp ? found.mtp : found.main;
  }
  /// In both precisions.
  static void expect_same_logits(const std::filesystem::path& model, const std::filesystem::path& preview,
                                 bool mtp = false) {
    for (const Precision precision : {Precision::kReleased, Precision::kExact}) {
      const std::vector<float> want = logits(preview, precision, mtp);
      ASSERT_FALSE(want.empty());
      EXPECT_SAME_BITS(logits(model, precision, mtp), want);
    }
  }
  static std::string left_out(const std::filesystem::path& model) {
    return left_out_text(open_model_folder(model).kind.left_out);
  }

  static test::TemporaryFolder* fp8_;
};

test::TemporaryFolder* Releases::fp8_ = nullptr;

TEST_F(Releases, DsparkSaysWhatItsMainModelSays) {
  EditedCheckpoint checkpoint(preview());
  test::make_dspark(checkpoint);
  const auto model = written(checkpoint);
  expect_same_logits(model, preview());
  const ModelFolder folder = open_model_folder(model);
  EXPECT_EQ(folder.kind.draft_head.value, DraftKind::kDspark);
  EXPECT_EQ(folder.kind.draft_head.evidence, "tensor \"mtp.0.main_norm.weight\"");
  EXPECT_EQ(folder.kind.draft_blocks.value, 3);
  EXPECT_EQ(folder.kind.draft_blocks.evidence, "mtp.0 to mtp.2");
  EXPECT_EQ(folder.kind.num_usable_draft_blocks, 3);
  EXPECT_EQ(folder.config.draft_kind, DraftKind::kDspark);
  EXPECT_EQ(folder.config.num_draft_blocks(), 3);
  EXPECT_EQ(folder.stored, folder.config);
  const DsparkConfig dspark{
      .block_size = 5, .noise_token_id = 511, .target_layer_ids = {2, 3, 4}, .markov_rank = 8};
  EXPECT_EQ(folder.config.dspark, dspark);
  EXPECT_EQ(left_out_text(folder.kind.left_out), "");
  EXPECT_EQ(why_no_drafts(folder.kind), "");
}

TEST_F(Releases, DsparkWithFp8Experts) {
  EditedCheckpoint checkpoint(fp8());
  test::make_dspark(checkpoint);
  checkpoint.config.erase("expert_dtype");
  expect_same_logits(written(checkpoint), fp8());
}

TEST_F(Releases, WithoutDraftHead) {
  EditedCheckpoint checkpoint(preview());
  checkpoint.erase_if(test::is_draft);
  const auto model = written(checkpoint);
  expect_same_logits(model, preview());
  EXPECT_EQ(left_out(model), "");
  checkpoint.config["compress_ratios"].erase(checkpoint.config["compress_ratios"].size() - 1);
  expect_same_logits(written(checkpoint), preview());
}

/// "num_nextn_predict_layers" is what no count is taken from.
TEST_F(Releases, TheNumberOfMtpBlocksIsThatOfTheTensors) {
  for (const int wrong : {0, 3}) {
    EditedCheckpoint checkpoint(preview());
    checkpoint.config["num_nextn_predict_layers"] = wrong;
    const auto model = written(checkpoint);
    EXPECT_EQ(load_config(model).num_nextn_predict_layers, 1);
    expect_same_logits(model, preview(), true);
  }
}

TEST_F(Releases, BaseWithScalesThatArePowersOfTwo) {
  EditedCheckpoint checkpoint(fp8());
  test::make_scales_f32(checkpoint);
  test::add_vocabulary_copies(checkpoint);
  const auto model = written(checkpoint);
  expect_same_logits(model, fp8());
  expect_same_logits(model, fp8(), true);
  const ModelFolder folder = open_model_folder(model);
  EXPECT_EQ(folder.kind.experts.text(), "FP8, F32 scales of 128 x 128");
  EXPECT_EQ(folder.kind.dense.text(), "FP8, F32 scales of 128 x 128");
  const std::string text = left_out_text(folder.kind.left_out);
  EXPECT_TRUE(
      text.starts_with("the MTP block's copies of embedding and head (mtp.*.emb, mtp.*.head), 2 tensors, "))
      << text;
}

constexpr float kOddFactor = 1.0F + 1234.0F / 4096.0F;  ///< 13 bits

/// FP8 with F32 scales of blocks as float32.
test::StoredTensor as_float32(const test::StoredTensor& weight, const test::StoredTensor& scale) {
  constexpr std::size_t kBlock = 128;
  const auto columns = static_cast<std::size_t>(weight.shape[1]),
             blocks = static_cast<std::size_t>(scale.shape[1]);
  std::vector<std::byte> bytes(weight.bytes.size() * sizeof(float));
  for (std::size_t i = 0; i < weight.bytes.size(); ++i) {
    const std::size_t block = i / columns / kBlock * blocks + i % columns / kBlock;
    float factor;
    std::memcpy(&factor, scale.bytes.data() + sizeof(float) * block, sizeof(factor));
    const float value = factor * e4m3_to_float(static_cast<std::uint8_t>(weight.bytes[i]));
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(value));
  }
  return {DType::kF32, weight.shape, std::move(bytes)};
}

/// Float32 weights are the truth: code and scale have 4 and 13 bits, so their product is exact there.
TEST_F(Releases, BaseWithAnyScales) {
  EditedCheckpoint base(fp8());
  test::make_scales_f32(base, kOddFactor);
  EditedCheckpoint wide(fp8());
  wide.config.erase("quantization_config");
  wide.tensors.clear();
  for (const auto& [name, tensor] : base.tensors) {
    if (tensor.dtype == DType::kF8E4M3) {
      const std::string scale = name.substr(0, name.size() - 6) + "scale";
      wide.tensors[name] = as_float32(tensor, base.tensors.at(scale));
    } else if (!name.ends_with(".scale")) {
      wide.tensors[name] = tensor;
    }
  }
  const auto model = written(base), truth = written(wide);
  EXPECT_CLOSE(logits(model, Precision::kExact), logits(truth, Precision::kExact), {.norm = 2e-6});
  // What is rounded lies in front of the weights: the same rows are rounded to the same values.
  EXPECT_CLOSE(logits(model, Precision::kBf16), logits(truth, Precision::kBf16), {.norm = 2e-2});
}

/// In released precision, against plain loops: one layer whose experts token ids choose, because roundings of
/// activations send tokens of random weights to other experts and entries.
TEST_F(Releases, BaseWithAnyScalesInReleasedPrecision) {
  const test::RandomCheckpoint one_layer(with_experts(with_layers(preset_config("tiny-flash"), 1), 4));
  ThreadPool pool(1);
  static_cast<void>(
      convert_checkpoint(one_layer.path(), folder_ / "fp8", {.experts = WeightFormat::kFp8}, pool));
  const auto noise = [](const std::filesystem::path& folder) {
    return test::relative_norm(
        logits(folder, Precision::kReleased),
        logits(folder, Precision::kReleased, false, {parse_forced_variant(kReferenceVariant)}));
  };
  for (const float factor : {1.0F, kOddFactor}) {
    EditedCheckpoint base(folder_ / "fp8");
    test::make_scales_f32(base, factor);
    const double off = noise(written(base));
    EXPECT_LT(off, 2e-2) << factor;
  }
}

/// GPUs multiply the scales of `wo_a` into BF16 weights.
TEST_F(Releases, DevicesTakeScalesThatAreBf16Numbers) {
  for (const float factor : {1.0F, 1.5F, 1.0F + 1.0F / 512}) {
    EditedCheckpoint base(fp8());
    test::make_scales_f32(base, factor);
    const ModelWeights weights(written(base));
    const auto copy = [&] { const DeviceWeights on_device(weights.tree(), host_memory()); };
    if (round_bf16(factor) == factor) {
      EXPECT_NO_THROW(copy());
      continue;
    }
    try {
      copy();
      ADD_FAILURE() << "copied";
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("block 0: scale 0 of wo_a is ")) << error.what();
    }
  }
}

TEST_F(Releases, VisionIsLeftOut) {
  EditedCheckpoint plain(preview()), vision(preview());
  plain.config["rms_norm_eps"] = vision.config["rms_norm_eps"] = 1e-20;
  test::make_dspark(vision);
  test::add_vision(vision);
  const auto model = written(vision);
  expect_same_logits(model, written(plain));
  const std::string text = left_out(model);
  EXPECT_TRUE(text.starts_with("vision (vision.*, aligner.*, image_*, gate.bias_vl), 19 tensors, ")) << text;
}

/// Formats are a block's: experts and dense matrices of an MTP block may have others than the layers'.
TEST_F(Releases, AnMtpBlockInOtherFormatsDrafts) {
  EditedCheckpoint checkpoint(preview());
  const EditedCheckpoint other(fp8());
  for (const auto& [name, tensor] : other.tensors)
    if (test::is_draft(name)) checkpoint.tensors[name] = tensor;
  const auto model = written(checkpoint);
  EXPECT_EQ(left_out(model), "");
  const ModelFolder folder = open_model_folder(model);
  EXPECT_EQ(folder.kind.num_usable_draft_blocks, 1);
  EXPECT_EQ(folder.kind.draft_experts.text(), "FP8, E8M0 scales of 128 x 128");
  EXPECT_EQ(folder.kind.experts.text(), "MXFP4, E8M0 scales");
  expect_same_logits(model, preview());
  // In float32 the block's FP8 experts say what its MXFP4 ones said, to the rounding of sums.
  EXPECT_CLOSE(logits(model, Precision::kExact, true), logits(preview(), Precision::kExact, true),
               {.norm = 2e-6});
}

TEST_F(Releases, AnMtpBlockThatIsNotReadIsLeftOut) {
  EditedCheckpoint checkpoint(preview());
  checkpoint.rename([](const std::string& name) {
    const bool changes = test::is_draft(name) && test::is_routed_expert(name) && name.ends_with(".weight");
    return changes ? name + "_packed" : name;
  });
  const auto model = written(checkpoint);
  expect_same_logits(model, preview());
  const std::string text = left_out(model);
  EXPECT_TRUE(
      text.starts_with("of the draft head MTP, mtp.0 (routed experts a format that is not known here, "
                       "which is not read), "))
      << text;
}

/// Of NVFP4 as ModelOpt stores it: codes times scales in float32.
test::StoredTensor nvfp4_as_float32(const EditedCheckpoint& c, const std::string& stem) {
  const test::StoredTensor& weight = c.tensors.at(stem + ".weight");
  const test::StoredTensor& scales = c.tensors.at(stem + ".weight_scale");
  float matrix_scale = 0;
  std::memcpy(&matrix_scale, c.tensors.at(stem + ".weight_scale_2").bytes.data(), sizeof(matrix_scale));
  test::StoredTensor wide{DType::kF32, {weight.shape[0], 2 * weight.shape[1]}, {}};
  wide.bytes.resize(2 * weight.bytes.size() * sizeof(float));
  for (std::size_t i = 0; i < 2 * weight.bytes.size(); ++i) {
    const auto pair = std::to_integer<std::uint8_t>(weight.bytes[i / 2]);
    const float value = e2m1_to_float(static_cast<std::uint8_t>(i % 2 == 0 ? pair : pair >> 4)) *
                        e4m3_to_float(std::to_integer<std::uint8_t>(scales.bytes[i / 16])) * matrix_scale;
    std::memcpy(wide.bytes.data() + i * sizeof(float), &value, sizeof(value));
  }
  return wide;
}

TEST_F(Releases, Nvfp4IsWhatItsScalesSay) {
  EditedCheckpoint checkpoint(preview());
  test::make_nvfp4(checkpoint);
  const auto model = written(checkpoint);
  const ModelFolder folder = open_model_folder(model);
  EXPECT_EQ(folder.kind.experts.text(), "NVFP4, E4M3 scales");
  EXPECT_EQ(folder.kind.draft_experts.text(), "MXFP4, E8M0 scales");
  EXPECT_EQ(folder.kind.num_usable_draft_blocks, 1);
  EXPECT_EQ(folder.kind.contradictions, std::vector<std::string>{});
  EXPECT_EQ(folder.config.expert_format, WeightFormat::kNvfp4);
  EXPECT_EQ(left_out(model),
            "scales for activations in FP4 (*.input_scale), which here are FP8, 60 tensors, 0.2 kB");
  EditedCheckpoint wide = checkpoint;
  wide.config["quantization_config"].erase("moe_quant_algo");
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : checkpoint.tensors)
    if (name.ends_with(".weight_scale_2")) stems.push_back(name.substr(0, name.size() - 15));
  wide.erase_if([](const std::string& name) { return name.find(".weight_scale") != std::string::npos; });
  for (const std::string& stem : stems) wide.tensors[stem + ".weight"] = nvfp4_as_float32(checkpoint, stem);
  const auto truth = written(wide);
  for (const bool mtp : {false, true})
    EXPECT_CLOSE(logits(model, Precision::kExact, mtp), logits(truth, Precision::kExact, mtp),
                 {.norm = 2e-6});
}

TEST_F(Releases, Nvfp4InReleasedPrecision) {
  const test::RandomCheckpoint one_layer(with_experts(with_layers(preset_config("tiny-flash"), 1), 4));
  EditedCheckpoint checkpoint(one_layer.path());
  test::make_nvfp4(checkpoint);
  const auto model = written(checkpoint);
  const double off = test::relative_norm(
      logits(model, Precision::kReleased),
      logits(model, Precision::kReleased, false, {parse_forced_variant(kReferenceVariant)}));
  EXPECT_LT(off, 2e-2);
}

TEST_F(Releases, DamagedNvfp4IsNamed) {
  struct Damage {
    const char* sentence;
    void (*change)(EditedCheckpoint&);
  };
  const Damage all[] = {
      {"tensor \"layers.1.ffn.experts.2.w3.weight_scale_2\": missing, config wants F32 []",
       [](EditedCheckpoint& c) { c.tensors.erase("layers.1.ffn.experts.2.w3.weight_scale_2"); }},
      {"weight_scale\" in ",
       [](EditedCheckpoint& c) {
         c.tensors.at("layers.1.ffn.experts.2.w3.weight_scale").bytes[7] = std::byte{0x7F};
       }},
      {"scale 7 is -",
       [](EditedCheckpoint& c) {
         c.tensors.at("layers.1.ffn.experts.2.w3.weight_scale").bytes[7] = std::byte{0xB8};
       }},
      {"weight_scale_2\" in ",
       [](EditedCheckpoint& c) {
         c.tensors.at("layers.1.ffn.experts.2.w3.weight_scale_2").bytes.assign(4, std::byte{0});
       }},
      {"dense matrices are NVFP4, which baleen reads of routed experts alone (layers.0.attn.wq_a: ",
       [](EditedCheckpoint& c) {
         const auto shape = c.tensors.at("layers.0.attn.wq_a.weight").shape;
         c.add("layers.0.attn.wq_a.weight", DType::kU8, {shape[0], shape[1] / 2});
         c.add("layers.0.attn.wq_a.weight_scale", DType::kF8E4M3, {shape[0], shape[1] / 16});
         c.add("layers.0.attn.wq_a.weight_scale_2", DType::kF32, {});
         c.tensors.erase("layers.0.attn.wq_a.scale");
       }}};
  for (const Damage& damage : all) {
    EditedCheckpoint checkpoint(preview());
    test::make_nvfp4(checkpoint);
    damage.change(checkpoint);
    try {
      const ModelWeights weights(written(checkpoint));
      ADD_FAILURE() << damage.sentence;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(damage.sentence), std::string::npos) << error.what();
    }
  }
}

/// Of a release that is converted the draft head is converted with it; vision and the encoder go along.
TEST_F(Releases, ConvertedCheckpointsKeepAll) {
  EditedCheckpoint checkpoint(preview());
  test::make_dspark(checkpoint);
  test::add_vision(checkpoint);
  const auto model = written(checkpoint);
  test::write_encoder(model, test::kOfficialEncoder);
  ThreadPool pool(1);
  const ConvertReport report =
      convert_checkpoint(model, folder_ / "out", {.experts = WeightFormat::kFp8}, pool);
  EXPECT_TRUE(report.lossless());
  EXPECT_EQ(report.left_out, "");
  EXPECT_NE(report_text(report).find("copied as they are, unread: vision, 19 tensors, "), std::string::npos);
  expect_same_logits(folder_ / "out", fp8());
  const EditedCheckpoint out(folder_ / "out");
  EXPECT_EQ(out.config["num_nextn_predict_layers"], 3);  // Vision-Exp's own
  EXPECT_EQ(out.config["dspark_markov_rank"], 8);
  EXPECT_EQ(out.config["vision_n_layers"], 1);
  for (const char* name : {"mtp.0.main_proj.weight", "mtp.2.markov_head.markov_w1.weight",
                           "mtp.1.ffn.gate.bias_vl", "vision.norm.weight"})
    EXPECT_EQ(out.tensors.at(name).bytes, checkpoint.tensors.at(name).bytes) << name;
  EXPECT_EQ(out.tensors.at("mtp.1.ffn.experts.0.w1.weight").dtype, DType::kF8E4M3);
  EXPECT_EQ(open_model_folder(folder_ / "out").kind.prompts.profile.value, PromptProfile::kOfficial);
  // Once more in its place, which deletes what was there.
  static_cast<void>(convert_checkpoint(model, folder_ / "out", {.force = true}, pool));
  EXPECT_EQ(EditedCheckpoint(folder_ / "out").tensors.at("mtp.1.ffn.experts.0.w1.weight").bytes,
            checkpoint.tensors.at("mtp.1.ffn.experts.0.w1.weight").bytes);
}

/// The block keeps its format, or takes the wanted one.
TEST_F(Releases, AnMtpBlockInOtherFormatsIsConverted) {
  EditedCheckpoint checkpoint(preview());
  const EditedCheckpoint other(fp8());
  for (const auto& [name, tensor] : other.tensors)
    if (test::is_draft(name)) checkpoint.tensors[name] = tensor;
  const auto model = written(checkpoint);
  ThreadPool pool(1);
  EXPECT_EQ(convert_checkpoint(model, folder_ / "same", {}, pool).left_out, "");
  const EditedCheckpoint same(folder_ / "same");
  for (const auto& [name, tensor] : checkpoint.tensors)
    EXPECT_EQ(same.tensors.at(name).bytes, tensor.bytes) << name;
  static_cast<void>(convert_checkpoint(model, folder_ / "fp8", {.experts = WeightFormat::kFp8}, pool));
  expect_same_logits(folder_ / "fp8", fp8(), true);
}

/// Where no doubt is left of what the tensors are, they decide, and config.json's word is named.
TEST_F(Releases, ConfigAgainstTensors) {
  const auto contradictions = [this](const EditedCheckpoint& checkpoint) {
    return open_model_folder(written(checkpoint)).kind.contradictions;
  };
  EXPECT_EQ(contradictions(EditedCheckpoint(preview())), std::vector<std::string>{});
  EditedCheckpoint repack(fp8());
  repack.config.erase("expert_dtype");
  repack.config["num_nextn_predict_layers"] = 3;
  EXPECT_EQ(contradictions(repack), std::vector<std::string>{});
  EditedCheckpoint wrong(fp8());
  wrong.config["expert_dtype"] = "fp4";
  wrong.config["vision_dim"] = 64;
  wrong.config["dspark_markov_rank"] = 8;
  wrong.config["quantization_config"]["moe_quant_algo"] = "NVFP4";
  const std::string found =
      "the routed experts are FP8, E8M0 scales of 128 x 128 (layers.0.ffn.experts.0.w1: weight F8_E4M3 [128, "
      "256], scale F8_E8M0 [1, 2]); the tensors decide";
  EXPECT_EQ(
      contradictions(wrong),
      (std::vector<std::string>{"config.json has \"expert_dtype\": \"fp4\", " + found,
                                "config.json has \"moe_quant_algo\": \"NVFP4\", " + found,
                                "config.json has \"dspark_markov_rank\", the draft head is MTP (tensor "
                                "\"mtp.0.e_proj.scale\"); the tensors decide",
                                "config.json has \"vision_dim\", and there is no tensor of a vision tower"}));
  expect_same_logits(written(wrong), fp8(), true);
}

}  // namespace
}  // namespace baleen
