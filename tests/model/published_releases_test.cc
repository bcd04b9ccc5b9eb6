// Headers of every published release and of variants that people download: what they are found to be, and
// that every tensor is one of the table or left unread by name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/model_folder.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "tests/support/header_only.h"
#include "tests/support/releases.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

const StorageFormats kFp8Experts{.experts = WeightFormat::kFp8};
const StorageFormats kF32Scales{
    .experts = WeightFormat::kFp8, .dense_scale = DType::kF32, .expert_scale = DType::kF32};
const StorageFormats kNvfp4Experts{.experts = WeightFormat::kNvfp4,
                                   .draft_experts = StoredFormat{.weight = WeightFormat::kFp4}};
constexpr const char* kMxfp4Text = "MXFP4, E8M0 scales";
constexpr const char* kNvfp4Text = "NVFP4, E4M3 scales";
constexpr const char* kFp8E8m0Text = "FP8, E8M0 scales of 128 x 128";
constexpr const char* kFp8F32Text = "FP8, F32 scales of 128 x 128";
constexpr const char* kInputScales =
    "scales for activations in FP4 (*.input_scale), which here are FP8, 33,024 tensors, 132.1 kB";

/// Files of one release, said by how they differ from the preview's, and what is found in them.
struct Files {
  std::string folder;  ///< says nothing of what is in it
  const char* preset = "flash";
  DraftKind draft = DraftKind::kMtp;
  StorageFormats formats = {};
  const char* encoder = nullptr;
  bool has_expert_dtype = true, has_vocabulary_copies = false, has_vision = false;
  std::string published, experts = kMxfp4Text, left_out;
  std::int64_t num_tensors = 0, bytes = 0;  ///< 0 bytes: not compared

  static Files found_as(const char* published, const char* folder) {
    Files files;
    files.published = published;
    files.folder = folder;
    return files;
  }
  [[nodiscard]] Files pro() const {
    return with([](Files& files) { files.preset = "pro"; });
  }
  [[nodiscard]] Files draft_head(DraftKind kind) const {
    return with([kind](Files& files) { files.draft = kind; });
  }
  [[nodiscard]] Files encoded_by(const char* text) const {
    return with([text](Files& files) { files.encoder = text; });
  }
  [[nodiscard]] Files stored_as(const StorageFormats& stored, const char* text) const {
    return with([&](Files& files) {
      files.formats = stored;
      files.experts = text;
    });
  }
  [[nodiscard]] Files without_expert_dtype() const {
    return with([](Files& files) { files.has_expert_dtype = false; });
  }
  [[nodiscard]] Files with_vocabulary_copies() const {
    return with([](Files& files) {
      files.has_vocabulary_copies = true;
      files.left_out =
          fmt::format("the MTP block's copies of embedding and head (mtp.*.emb, mtp.*.head), 2 tensors, {}",
                      std::string_view(files.preset) == "pro" ? "3.71 GB" : "2.12 GB");
    });
  }
  [[nodiscard]] Files leaving_out(const char* text) const {
    return with([text](Files& files) { files.left_out = text; });
  }
  [[nodiscard]] Files with_vision() const {
    return with([](Files& files) { files.has_vision = true; });
  }
  [[nodiscard]] Files of_size(std::int64_t tensors, std::int64_t size = 0) const {
    return with([=](Files& files) {
      files.num_tensors = tensors;
      files.bytes = size;
    });
  }

 private:
  template <class Change>
  [[nodiscard]] Files with(const Change& change) const {
    Files changed = *this;
    change(changed);
    return changed;
  }
};

/// Numbers of tensors and bytes are the published ones, or (Pro-Base, Vision-Exp, repacks) follow from rules.
std::vector<Files> published_files() {
  const auto found_as = Files::found_as;
  constexpr DraftKind kDspark = DraftKind::kDspark, kNone = DraftKind::kNone;
  const auto& official = test::kOfficialEncoder;
  const auto& preview = test::kPreviewEncoder;
  return {
      found_as("V4-Flash", "V4-Flash-0731").encoded_by(preview).of_size(69'187, 159'609'485'896),
      found_as("V4-Pro", "V4-Flash-Base").pro().of_size(145'116, 864'704'792'696),
      found_as("V4-Flash", "first-revision").without_expert_dtype().of_size(69'187),
      found_as("V4-Flash-0731", "V4-Flash")
          .draft_head(kDspark)
          .encoded_by(official)
          .of_size(72'317, 166'878'536'440),
      found_as("V4-Flash-DSpark", "V4-Flash-0731 (2)")
          .draft_head(kDspark)
          .encoded_by(preview)
          .of_size(72'317),
      found_as("V4-Flash-DSpark or 0731", "V4-Flash-DSpark").draft_head(kDspark).of_size(72'317),
      found_as("V4-Pro-0813", "V4-Pro")
          .pro()
          .draft_head(kDspark)
          .encoded_by(official)
          .of_size(149'782, 892'727'580'904),
      found_as("V4-Flash-Base, or FP8 experts in its form", "V4-Flash-0731-NVFP4")
          .stored_as(kF32Scales, kFp8F32Text)
          .with_vocabulary_copies()
          .of_size(69'189, 294'673'469'000),
      found_as("V4-Pro-Base, or FP8 experts in its form", "pro-base")
          .pro()
          .stored_as(kF32Scales, kFp8F32Text)
          .with_vocabulary_copies()
          .of_size(145'118, 1'606'032'540'792),
      found_as("V4-Flash-Base, or FP8 experts in its form", "repack-f32")
          .stored_as(kF32Scales, kFp8F32Text)
          .without_expert_dtype()
          .of_size(69'187),
      found_as("V4-Flash with FP8 experts (a repack)", "repack-e8m0")
          .stored_as(kFp8Experts, kFp8E8m0Text)
          .without_expert_dtype()
          .of_size(69'187),
      found_as("V4-Flash-0731 with FP8 experts (a repack)", "repack-of-0731")
          .draft_head(kDspark)
          .stored_as(kFp8Experts, kFp8E8m0Text)
          .encoded_by(official)
          .without_expert_dtype()
          .of_size(72'317),
      // nvidia/DeepSeek-V4-Flash-NVFP4, with its MTP block and without
      found_as("V4-Flash with NVFP4 experts (a repack)", "MXFP4")
          .stored_as(kNvfp4Experts, kNvfp4Text)
          .leaving_out(kInputScales)
          .of_size(135'235),
      found_as("V4-Flash-0731 with NVFP4 experts (a repack)", "nvfp4-of-0731")
          .draft_head(kDspark)
          .stored_as(kNvfp4Experts, kNvfp4Text)
          .encoded_by(official)
          .leaving_out(kInputScales)
          .of_size(138'365),
      found_as("V4-Flash with NVFP4 experts (a repack) without a draft head", "nvfp4-without-mtp")
          .draft_head(kNone)
          .stored_as({.experts = WeightFormat::kNvfp4}, kNvfp4Text)
          .leaving_out(kInputScales)
          .of_size(133'660),
      found_as("V4-Flash-Vision-Exp", "vision")
          .draft_head(kDspark)
          .with_vision()
          .leaving_out("vision (vision.*, aligner.*, image_*, gate.bias_vl), 313 tensors, 932.8 MB")
          .of_size(72'630),
      found_as("V4-Flash without a draft head", "without-mtp").draft_head(kNone).of_size(67'612),
  };
}

std::vector<TensorHeader> published_headers(const Files& files, ModelConfig& config) {
  std::vector<TensorHeader> tensors;
  if (files.draft == DraftKind::kDspark) {
    const std::int64_t last = config.num_hidden_layers - 1;
    config.dspark = {.block_size = 5,
                     .noise_token_id = 128799,
                     .target_layer_ids = {last - 2, last - 1, last},
                     .markov_rank = config.hidden_size == 4096 ? 256 : 512};
    config.draft_kind = DraftKind::kDspark;
    config.compress_ratios.insert(config.compress_ratios.end(), 2, 0);
    tensors = test::dspark_headers(config, files.formats);
  } else {
    if (files.draft == DraftKind::kNone) config.num_nextn_predict_layers = 0;
    tensors = test::headers_of(config, files.formats);
  }
  if (files.has_vocabulary_copies) {
    for (const char* name : {"mtp.0.emb.tok_emb.weight", "mtp.0.head.weight"})
      tensors.push_back({name, DType::kBF16, {config.vocab_size, config.hidden_size}});
  }
  if (files.has_vision) test::add_vision_headers(config, tensors);
  if (files.formats.experts == WeightFormat::kNvfp4) test::add_input_scales(tensors);
  return tensors;
}

TEST(PublishedReleases, HeadersOfEveryRelease) {
  for (const Files& files : published_files()) {
    SCOPED_TRACE(files.folder);
    ModelConfig config = preset_config(files.preset);
    config.expert_format = files.formats.experts;
    const std::vector<TensorHeader> tensors = published_headers(files, config);
    nlohmann::ordered_json text = nlohmann::ordered_json::parse(config_text(config));
    text["num_nextn_predict_layers"] = 1;
    if (!files.has_expert_dtype) text.erase("expert_dtype");
    const test::TemporaryFolder parent;
    const std::filesystem::path path = parent / files.folder;
    test::write_header_only(path, tensors, text.dump());
    if (files.encoder != nullptr) test::write_encoder(path, files.encoder);
    const ModelFolder folder = open_model_folder(path);
    EXPECT_NO_THROW(check_tensors(folder.stored, folder.checkpoint));
    EXPECT_EQ(folder.kind.published.value, files.published);
    EXPECT_EQ(folder.kind.draft_head.value, files.draft);
    EXPECT_EQ(folder.kind.experts.text(), files.experts);
    EXPECT_EQ(left_out_text(folder.kind.left_out), files.left_out);
    EXPECT_EQ(folder.kind.contradictions, std::vector<std::string>{});
    EXPECT_EQ(detect_formats(folder.stored, folder.checkpoint), files.formats);
    EXPECT_EQ(std::ssize(folder.checkpoint.tensors()), files.num_tensors);
    std::int64_t bytes = 0;
    for (const TensorInfo& tensor : folder.checkpoint.tensors()) bytes += tensor.size_bytes();
    if (files.bytes > 0) {
      EXPECT_EQ(bytes, files.bytes);
    }
  }
}

}  // namespace
}  // namespace baleen
