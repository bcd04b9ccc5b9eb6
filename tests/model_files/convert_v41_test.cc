// DeepSeek-V4.1 through the converter: FP8 in blocks of 32 x 32, tables of n-grams that are larger than
// memories, its config.json, a vision tower that nothing here reads.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "model_files/convert.h"
#include "model_files/init.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "tests/support/edited_checkpoint.h"
#include "tests/support/header_only.h"
#include "tests/support/releases.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/v41_headers.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::EditedCheckpoint;
using Json = nlohmann::json;

/// The first tensor that is not the same in both; empty: none.
std::string other_tensor(const fs::path& a, const fs::path& b) {
  const Checkpoint first(a), second(b);
  for (const TensorInfo& tensor : first.tensors()) {
    const TensorInfo* other = second.find(tensor.name);
    if (other == nullptr || tensor.type_text() != other->type_text() ||
        !std::ranges::equal(tensor.bytes, other->bytes))
      return tensor.name;
  }
  return first.tensors().size() == second.tensors().size() ? "" : "number of tensors";
}

Json config_json_of(const fs::path& folder) { return Json::parse(read_text_file(folder / "config.json")); }

class ConvertV41 : public testing::Test {
 protected:
  void SetUp() override { init_checkpoint(in(), preset_config("tiny-v41"), {}, pool_); }

  fs::path in() const { return folder_ / "in"; }
  fs::path out() const { return folder_ / "out"; }
  fs::path back() const { return folder_ / "back"; }
  fs::path with_tower() const {
    EditedCheckpoint checkpoint(in());
    test::add_v41_vision(checkpoint);
    checkpoint.write(folder_ / "vision");
    return folder_ / "vision";
  }
  ConvertReport convert(const fs::path& from, const fs::path& to, const ConvertOptions& options = {}) {
    return convert_checkpoint(from, to, options, pool_);
  }
  std::string refusal(const fs::path& from, const fs::path& to, const ConvertOptions& options = {}) {
    try {
      convert(from, to, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  test::TemporaryFolder folder_;
  ThreadPool pool_{2};
};

TEST_F(ConvertV41, ReshardingKeepsEveryByte) {
  const ConvertReport report = convert(in(), out(), {.max_shard_bytes = 400'000});
  EXPECT_TRUE(report.changed.empty());
  EXPECT_TRUE(report.lossless());
  EXPECT_GT(Checkpoint(out()).num_files(), 10U);
  EXPECT_EQ(other_tensor(in(), out()), "");
  EXPECT_EQ(load_config(out()), load_config(in()));
  EXPECT_EQ(config_json_of(out()), config_json_of(in()));
}

/// Every value by plain loops: a code times the scale of its 32 rows and 32 columns.
TEST_F(ConvertV41, Fp4BecomesFp8InBlocksOf32AndBack) {
  const ConvertReport recoded = convert(in(), out(), {.experts = WeightFormat::kFp8});
  EXPECT_TRUE(recoded.lossless()) << report_text(recoded);
  EXPECT_EQ(recoded.changed.at(TensorRole::kRoutedExpert).num_tensors, 3 * (7 * 8 + 3 * 4));
  EXPECT_EQ(load_config(out()).expert_format, WeightFormat::kFp8x32);
  EXPECT_EQ(config_json_of(out())["quantization_config"]["expert_dtype"], "fp8");
  EXPECT_FALSE(config_json_of(out()).contains("expert_dtype"));
  const Checkpoint fp4(in()), fp8(out());
  const auto byte = [](const TensorInfo& tensor, std::int64_t i) {
    return std::to_integer<std::uint8_t>(tensor.bytes[static_cast<std::size_t>(i)]);
  };
  for (const std::string stem : {"layers.2.ffn.experts.5.w2", "mtp.1.ffn.experts.3.w1"}) {
    const TensorInfo &codes = fp8.at(stem + ".weight"), &scales = fp8.at(stem + ".scale");
    const TensorInfo &packed = fp4.at(stem + ".weight"), &fine = fp4.at(stem + ".scale");
    const std::int64_t rows = codes.shape[0], cols = codes.shape[1];
    EXPECT_EQ(scales.shape, (std::vector<std::int64_t>{rows / 32, cols / 32}));
    std::int64_t num_other = 0;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const std::int64_t row = i / cols, col = i % cols;
      const float found =
          std::ldexp(e4m3_to_float(byte(codes, i)), byte(scales, row / 32 * (cols / 32) + col / 32) - 127);
      const auto nibble = static_cast<std::uint8_t>(byte(packed, i / 2) >> (i % 2 * 4) & 15);
      num_other += found != std::ldexp(e2m1_to_float(nibble), byte(fine, i / 32) - 127) ? 1 : 0;
    }
    EXPECT_EQ(num_other, 0) << stem;
  }
  EXPECT_TRUE(convert(out(), back(), {.experts = WeightFormat::kFp4}).lossless());
  EXPECT_EQ(load_config(back()), load_config(in()));
}

/// With scales of a block further apart than e4m3 reaches, the converter says which matrix lost something.
TEST_F(ConvertV41, ABlockThatCannotBeRecodedIsNamed) {
  EditedCheckpoint wide(in());
  wide.tensors.at("layers.1.ffn.experts.1.w2.scale").bytes.front() = std::byte{150};
  wide.write(folder_ / "wide");
  const ConvertReport report = convert(folder_ / "wide", out(), {.experts = WeightFormat::kFp8});
  EXPECT_EQ(report.unexpected_losses, std::vector<std::string>{"layers.1.ffn.experts.1.w2"});
}

TEST_F(ConvertV41, ToBf16AndBackIsLossless) {
  const ConvertOptions to_bf16{.experts = WeightFormat::kBF16, .dense = WeightFormat::kBF16};
  EXPECT_TRUE(convert(in(), out(), to_bf16).lossless());
  const Json config = config_json_of(out());
  EXPECT_FALSE(config.contains("quantization_config"));
  EXPECT_EQ(config["expert_dtype"], "bf16");
  EXPECT_EQ(load_config(out()).expert_format, WeightFormat::kBF16);
  EXPECT_EQ(read_model_files(out()).kind.contradictions, std::vector<std::string>{});
  const Checkpoint bf16(out());
  EXPECT_EQ(bf16.at("layers.1.engram.wkv.weight").type_text(), "BF16 [1280, 384]");
  EXPECT_EQ(bf16.at("layers.1.engram.embed.weight").dtype, DType::kF8E4M3);
  const ConvertOptions to_released{.experts = WeightFormat::kFp4, .dense = WeightFormat::kFp8};
  EXPECT_TRUE(convert(out(), back(), to_released).lossless());
  EXPECT_EQ(load_config(back()), load_config(in()));
  EXPECT_EQ(config_json_of(back())["quantization_config"], config_json_of(in())["quantization_config"]);
  EXPECT_FALSE(config_json_of(back()).contains("expert_dtype"));
  EXPECT_EQ(read_model_files(back()).kind.contradictions, std::vector<std::string>{});
  EXPECT_EQ(Checkpoint(back()).at("layers.0.attn.wq_a.scale").type_text(), "F8_E8M0 [4, 8]");
  convert(back(), folder_ / "again", to_bf16);
  EXPECT_EQ(other_tensor(out(), folder_ / "again"), "");
}

TEST_F(ConvertV41, Nvfp4AndBackKeepsEveryByte) {
  EXPECT_TRUE(convert(in(), out(), {.experts = WeightFormat::kNvfp4}).lossless());
  const Json config = config_json_of(out())["quantization_config"];
  EXPECT_EQ(config["moe_quant_algo"], "NVFP4");
  EXPECT_EQ(config["expert_dtype"], "fp4");
  EXPECT_EQ(load_config(out()).expert_format, WeightFormat::kNvfp4);
  EXPECT_EQ(read_model_files(out()).kind.contradictions, std::vector<std::string>{});
  const ConvertReport report = convert(out(), back(), {.experts = WeightFormat::kFp4});
  EXPECT_EQ(report.fp4_proof.num_exact, 3 * (7 * 8 + 3 * 4));
  EXPECT_EQ(other_tensor(in(), back()), "");
  EXPECT_EQ(config_json_of(back()), config_json_of(in()));
}

TEST_F(ConvertV41, AVisionTowerIsCopiedOrLeftOut) {
  const fs::path vision = with_tower();
  const ConvertReport kept =
      convert(vision, out(), {.experts = WeightFormat::kFp8, .max_shard_bytes = 2'000'000});
  EXPECT_EQ(kept.left_out, "");
  EXPECT_TRUE(kept.copied.starts_with("vision, 14 tensors, ")) << kept.copied;
  EXPECT_EQ(config_json_of(out())["vision_config"], config_json_of(vision)["vision_config"]);
  const Checkpoint before(vision), after(out());
  for (const TensorInfo& tensor : before.tensors()) {
    if (!is_vision_tensor(tensor.name)) continue;
    EXPECT_TRUE(std::ranges::equal(after.at(tensor.name).bytes, tensor.bytes)) << tensor.name;
  }
  convert(vision, back(), {.max_shard_bytes = 2'000'000});
  EXPECT_EQ(other_tensor(vision, back()), "");

  const ConvertReport left = convert(vision, folder_ / "text", {.has_vision = false});
  EXPECT_EQ(left.copied, "");
  EXPECT_TRUE(left.left_out.starts_with("vision (vision.*, aligner.*, image_*, gate.bias_vl), 14 tensors, "));
  EXPECT_EQ(other_tensor(in(), folder_ / "text"), "");
  EXPECT_FALSE(config_json_of(folder_ / "text").contains("vision_config"));
  EXPECT_EQ(config_json_of(folder_ / "text")["image_token_id"], 4094) << "no n-gram spans it";
  EXPECT_EQ(read_model_files(folder_ / "text").kind.contradictions, std::vector<std::string>{});
}

TEST_F(ConvertV41, TheDraftHeadIsLeftOutWhereThatIsWanted) {
  const fs::path vision = with_tower();
  const ConvertReport report = convert(vision, out(), {.has_draft_head = false});
  EXPECT_TRUE(report.left_out.starts_with("the draft head DSpark, 169 tensors, ")) << report.left_out;
  EXPECT_TRUE(report.copied.starts_with("vision, 11 tensors, ")) << report.copied;
  const ModelFiles files = read_model_files(out());
  EXPECT_EQ(files.kind.draft_head.value, DraftKind::kNone);
  EXPECT_EQ(files.kind.contradictions, std::vector<std::string>{});
  EXPECT_EQ(load_config(out()).num_draft_blocks(), 0);
  EXPECT_EQ(config_json_of(out())["text_config"]["num_nextn_predict_layers"], 0);
  EXPECT_FALSE(config_json_of(out())["text_config"].contains("dspark_block_size"));
  const ConvertReport neither =
      convert(vision, folder_ / "text", {.has_draft_head = false, .has_vision = false});
  EXPECT_EQ(report_text(neither).find("copied as they are"), std::string::npos);
  const Checkpoint text(folder_ / "text");
  for (const TensorInfo& tensor : text.tensors())
    EXPECT_FALSE(is_draft_tensor(tensor.name) || is_vision_tensor(tensor.name)) << tensor.name;
}

TEST_F(ConvertV41, ADamagedTableIsRefused) {
  EditedCheckpoint damaged(in());
  damaged.tensors.at("layers.3.engram.embed.scale").bytes[70] = std::byte{255};
  damaged.write(folder_ / "damaged");
  const std::string why = refusal(folder_ / "damaged", out());
  EXPECT_NE(why.find("tensor \"layers.3.engram.embed.scale\" in "), std::string::npos) << why;
  EXPECT_NE(why.find("scale 70 is NaN"), std::string::npos) << why;
  EXPECT_FALSE(fs::exists(out()));
}

std::int64_t data_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoll(line.substr(7)) * 1024;
  }
  return 0;
}

/// Tables of 25 MB each, with room for 16 MB more than the process has.
TEST_F(ConvertV41, TablesTakeNoMemory) {
  const ModelConfig config = with_engram_vocabulary(preset_config("tiny-v41"), 1 << 16);
  init_checkpoint(folder_ / "large", config, {}, pool_);
  ASSERT_GT(Checkpoint(folder_ / "large").at("layers.1.engram.embed.weight").bytes.size(), 24'000'000U);
  const pid_t child = ::fork();
  if (child == 0) {
    ThreadPool pool(1);
    const auto limit = static_cast<rlim_t>(data_bytes() + 16'000'000);
    const rlimit limits{limit, limit};
    if (::setrlimit(RLIMIT_DATA, &limits) != 0) ::_exit(2);
    try {
      convert_checkpoint(folder_ / "large", out(), {}, pool);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(other_tensor(folder_ / "large", out()), "");
}

/// As published, of which headers are there: all checks pass before a weight is read, or the disk is too
/// small.
TEST_F(ConvertV41, ThePublishedOneIsTaken) {
  test::write_header_only(folder_ / "published", test::v41_headers(), test::v41_config().dump());
  const std::string why = refusal(folder_ / "published", out(),
                                  {.experts = WeightFormat::kFp8, .cancelled = [] { return true; }});
  const bool has_room = why.find("interrupted; nothing was left behind") != std::string::npos;
  EXPECT_TRUE(has_room || why.find(": the checkpoint takes 772.004 GB") != std::string::npos) << why;
  EXPECT_FALSE(fs::exists(out()));
}

}  // namespace
}  // namespace baleen
