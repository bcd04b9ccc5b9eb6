// Whole checkpoints through the converter: lossless where it says so, honest where not, and all or nothing.
#include "model_files/convert.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint_writer.h"
#include "model/model_folder.h"
#include "model/presets.h"
#include "model_files/init.h"
#include "tests/support/releases.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

ModelConfig small_config() { return with_experts(with_layers(preset_config("tiny-flash"), 3), 2); }

void put(const fs::path& path, const std::string& text) {
  AtomicFileWriter writer(path);
  writer.write(text);
  writer.commit();
}

/// The checkpoint of `in` with some tensors' bytes or headers changed by `change`.
template <class Change>
void rewrite(const fs::path& in, const fs::path& out, const ModelConfig& config, Change change) {
  struct Tensor {
    TensorHeader header;
    std::vector<std::byte> bytes;
  };
  std::map<std::string, Tensor> tensors;
  std::vector<TensorHeader> headers;
  const Checkpoint checkpoint(in);
  for (const TensorInfo& found : checkpoint.tensors()) {
    Tensor tensor{found, {found.bytes.begin(), found.bytes.end()}};
    change(tensor.header, tensor.bytes);
    headers.push_back(tensor.header);
    tensors.emplace(found.name, std::move(tensor));
  }
  CheckpointWriter writer(out, headers, INT64_MAX);
  for (const TensorHeader& tensor : writer.order()) writer.append(tensor.name, tensors.at(tensor.name).bytes);
  const TextFile text{"config.json", config_text(config)};
  writer.finish(std::span(&text, 1));
}

void expect_same_tensors(const fs::path& a, const fs::path& b) {
  const Checkpoint first(a), second(b);
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (const TensorInfo& tensor : first.tensors()) {
    const TensorInfo& other = second.at(tensor.name);
    EXPECT_EQ(tensor.type_text(), other.type_text());
    EXPECT_TRUE(std::equal(tensor.bytes.begin(), tensor.bytes.end(), other.bytes.begin(), other.bytes.end()))
        << tensor.name;
  }
}

class Convert : public ::testing::Test {
 protected:
  void SetUp() override { init_checkpoint(in(), small_config(), {}, pool_); }

  fs::path in() const { return folder_ / "in"; }
  fs::path out() const { return folder_ / "out"; }
  ConvertReport convert(const fs::path& from, const fs::path& to, const ConvertOptions& options) {
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

  TemporaryFolder folder_;
  ThreadPool pool_{2};
};

TEST_F(Convert, ReshardingKeepsEveryByte) {
  put(in() / "tokenizer.json", "{}");
  put(in() / "README.md", "about the original");
  const ConvertReport report = convert(in(), out(), {.max_shard_bytes = 300'000});
  EXPECT_TRUE(report.changed.empty());
  EXPECT_GT(Checkpoint(out()).num_files(), 3u);
  expect_same_tensors(in(), out());
  EXPECT_EQ(load_config(out()), load_config(in()));
  EXPECT_TRUE(fs::exists(out() / "tokenizer.json"));
  EXPECT_FALSE(fs::exists(out() / "README.md"));
  convert(out(), folder_ / "back", {});
  expect_same_tensors(in(), folder_ / "back");
}

TEST_F(Convert, Fp4ToFp8IsLosslessAndBack) {
  const ConvertReport recoded = convert(in(), out(), {.experts = WeightFormat::kFp8});
  EXPECT_TRUE(recoded.lossless());
  EXPECT_EQ(recoded.changed.at(TensorRole::kRoutedExpert).num_tensors, 4 * 2 * 3);
  EXPECT_EQ(recoded.changed.size(), 1u);
  EXPECT_EQ(load_config(out()).expert_format, WeightFormat::kFp8);
  EXPECT_TRUE(convert(out(), folder_ / "back", {.experts = WeightFormat::kFp4}).lossless());
}

TEST_F(Convert, Fp4ToNvfp4AndBackKeepsEveryByte) {
  const ConvertReport cast = convert(in(), out(), {.experts = WeightFormat::kNvfp4});
  EXPECT_TRUE(cast.lossless()) << report_text(cast);
  const auto json = nlohmann::json::parse(read_text_file(out() / "config.json"));
  EXPECT_EQ(json["expert_dtype"], "fp4");
  EXPECT_EQ(json["quantization_config"]["moe_quant_algo"], "NVFP4");
  const Checkpoint nvfp4(out());
  const std::string stem = "layers.1.ffn.experts.0.";
  EXPECT_EQ(nvfp4.at(stem + "w1.weight").type_text(), "U8 [128, 128]");
  EXPECT_EQ(nvfp4.at(stem + "w1.weight_scale").type_text(), "F8_E4M3 [128, 16]");
  EXPECT_EQ(nvfp4.at(stem + "w1.weight_scale_2").type_text(), "F32 []");
  EXPECT_TRUE(std::ranges::equal(nvfp4.at(stem + "w1.weight_scale_2").bytes,
                                 nvfp4.at(stem + "w3.weight_scale_2").bytes));
  const ConvertReport back = convert(out(), folder_ / "back", {.experts = WeightFormat::kFp4});
  EXPECT_TRUE(back.lossless());
  EXPECT_EQ(back.fp4_proof.num_matrices, 4 * 2 * 3);
  EXPECT_EQ(back.fp4_proof.num_exact, 4 * 2 * 3);
  EXPECT_NE(
      report_text(back).find("NVFP4 to FP4: 24 of 24 matrices are exact: all scales are powers of two, "),
      std::string::npos)
      << report_text(back);
  expect_same_tensors(in(), folder_ / "back");
  EXPECT_EQ(load_config(folder_ / "back"), load_config(in()));
}

/// One group of 16 weights with half its scale is enough, as is a matrix's own scale.
TEST_F(Convert, Nvfp4ThatIsNotExactInFp4Stays) {
  convert(in(), folder_ / "nvfp4", {.experts = WeightFormat::kNvfp4});
  ModelConfig config = small_config();
  config.expert_format = WeightFormat::kNvfp4;
  const auto breaks = [&](const std::string& name, const std::string& reason, auto&& change) {
    const fs::path broken = folder_ / "broken", kept = folder_ / "kept";
    fs::remove_all(broken);
    fs::remove_all(kept);
    rewrite(folder_ / "nvfp4", broken, config, [&](TensorHeader& tensor, std::vector<std::byte>& bytes) {
      if (tensor.name == name) change(bytes);
    });
    const ConvertReport report = convert(broken, kept, {.experts = WeightFormat::kFp4});
    EXPECT_EQ(report.fp4_proof.num_exact, 4 * 2 * 3 - 1);
    EXPECT_NE(report_text(report).find(
                  "NVFP4 to FP4: 23 of 24 matrices are exact, so experts stay as they are: " + reason),
              std::string::npos)
        << report_text(report);
    EXPECT_EQ(report.to.experts, WeightFormat::kNvfp4);
    EXPECT_TRUE(report.lossless());
    expect_same_tensors(broken, kept);
  };
  const std::string stem = "layers.2.ffn.experts.1.w2";
  breaks(stem + ".weight_scale", stem + ": weight_scale [0, 2] is ", [](std::vector<std::byte>& bytes) {
    bytes[3] = static_cast<std::byte>(std::to_integer<int>(bytes[3]) - 8);
  });
  breaks(stem + ".weight_scale", stem + ": weight_scale [0, 3] is ", [](std::vector<std::byte>& bytes) {
    bytes[3] = static_cast<std::byte>(std::to_integer<int>(bytes[3]) + 1);
  });
  breaks(stem + ".weight_scale_2", stem + ": weight_scale_2 is 0.75, no power of two",
         [](std::vector<std::byte>& bytes) {
           const float scale = 0.75F;
           std::memcpy(bytes.data(), &scale, sizeof(scale));
         });
}

/// Scales of weights that are all zero do not count, be they zero themselves.
TEST_F(Convert, Nvfp4GroupsOfZerosAreExactInFp4) {
  convert(in(), folder_ / "nvfp4", {.experts = WeightFormat::kNvfp4});
  ModelConfig config = small_config();
  config.expert_format = WeightFormat::kNvfp4;
  const std::string stem = "layers.2.ffn.experts.1.w2";
  rewrite(folder_ / "nvfp4", folder_ / "zeros", config,
          [&](TensorHeader& tensor, std::vector<std::byte>& bytes) {
            if (tensor.name == stem + ".weight") std::fill_n(bytes.begin(), 24, std::byte{0x80});
            if (tensor.name == stem + ".weight_scale") bytes[0] = bytes[1] = bytes[2] = std::byte{0};
          });
  const ConvertReport report = convert(folder_ / "zeros", out(), {.experts = WeightFormat::kFp4});
  EXPECT_EQ(report.fp4_proof.num_exact, 4 * 2 * 3) << report.fp4_proof.why_not;
  EXPECT_TRUE(report.lossless());
  EXPECT_EQ(report.to.experts, WeightFormat::kFp4);
}

TEST_F(Convert, RoundingToNvfp4IsAccountedFor) {
  ModelConfig config = small_config();
  config.expert_format = WeightFormat::kBF16;
  init_checkpoint(folder_ / "bf16", config, {}, pool_);
  const ConvertReport report = convert(folder_ / "bf16", out(), {.experts = WeightFormat::kNvfp4});
  const RoundingLoss& experts = report.changed.at(TensorRole::kRoutedExpert);
  EXPECT_EQ(experts.num_exact, 0);
  // Scales of 16 weights that need not be powers of two: finer than FP4's.
  EXPECT_GT(experts.mean_relative_error(), 0.04);
  EXPECT_LT(experts.mean_relative_error(), 0.1);
  EXPECT_FALSE(report.lossless());
  EXPECT_FALSE(convert(out(), folder_ / "fp8", {.experts = WeightFormat::kFp8}).lossless());
}

TEST_F(Convert, ToBf16AndBackIsLossless) {
  const ConvertOptions to_bf16{.experts = WeightFormat::kBF16, .dense = WeightFormat::kBF16};
  EXPECT_TRUE(convert(in(), out(), to_bf16).lossless());
  const auto json = nlohmann::json::parse(read_text_file(out() / "config.json"));
  EXPECT_FALSE(json.contains("quantization_config"));
  EXPECT_EQ(json["expert_dtype"], "bf16");
  const ConvertOptions to_released{.experts = WeightFormat::kFp4, .dense = WeightFormat::kFp8};
  EXPECT_TRUE(convert(out(), folder_ / "back", to_released).lossless());
  EXPECT_EQ(load_config(folder_ / "back"), load_config(in()));
  // Values return, bytes need not: a block whose largest code is 3 or less is stored with half the scale.
  EXPECT_TRUE(convert(folder_ / "back", folder_ / "again", to_bf16).lossless());
  expect_same_tensors(out(), folder_ / "again");
}

TEST_F(Convert, RoundingBf16IsAccountedFor) {
  ModelConfig config = small_config();
  config.expert_format = config.dense_format = WeightFormat::kBF16;
  init_checkpoint(folder_ / "bf16", config, {}, pool_);
  const ConvertReport report =
      convert(folder_ / "bf16", out(), {.experts = WeightFormat::kFp4, .dense = WeightFormat::kFp8});
  const RoundingLoss& experts = report.changed.at(TensorRole::kRoutedExpert);
  const RoundingLoss& attention = report.changed.at(TensorRole::kAttention);
  EXPECT_EQ(experts.num_exact, 0);
  EXPECT_GT(experts.mean_relative_error(), 0.05);  // steps of half a scale where values are a few scales
  EXPECT_LT(experts.mean_relative_error(), 0.2);
  EXPECT_GT(attention.mean_relative_error(),
            0.01);  // a mantissa of three bits: up to 1/16, on average a third of it
  EXPECT_LT(attention.mean_relative_error(), 1.0 / 16);
  EXPECT_TRUE(report.unexpected_losses.empty());
  EXPECT_EQ(load_config(out()), load_config(in()));
}

TEST_F(Convert, SaysWhatRoundingLoses) {
  rewrite(in(), folder_ / "f32", small_config(), [](TensorHeader& tensor, std::vector<std::byte>& bytes) {
    if (!tensor.name.ends_with(".scale") || tensor.name.find(".experts.") != std::string::npos) return;
    // Base checkpoints: F32 scales, no powers of two.
    const std::vector<float> scales(static_cast<std::size_t>(tensor.num_elements()), 0.0003F);
    tensor.dtype = DType::kF32;
    bytes.assign(std::as_bytes(std::span(scales)).begin(), std::as_bytes(std::span(scales)).end());
  });
  const ConvertReport report = convert(folder_ / "f32", out(), {.dense = WeightFormat::kBF16});
  EXPECT_EQ(report.from.dense_scale, DType::kF32);
  EXPECT_FALSE(report.lossless());
  const RoundingLoss& attention = report.changed.at(TensorRole::kAttention);
  EXPECT_EQ(attention.num_exact, 0);
  EXPECT_GT(attention.mean_relative_error(), 1e-4);
  EXPECT_LE(attention.max_relative_error, 0x1p-8);  // half a BF16 step
  EXPECT_FALSE(report.unexpected_losses.empty());
  EXPECT_NE(report_text(report).find("not lossless"), std::string::npos);
  // Copied, F32 scales stay as they are.
  convert(folder_ / "f32", folder_ / "copy", {});
  expect_same_tensors(folder_ / "f32", folder_ / "copy");
}

TEST_F(Convert, NamesBlocksThatCannotBeRecoded) {
  rewrite(in(), folder_ / "wide", small_config(), [](TensorHeader& tensor, std::vector<std::byte>& bytes) {
    if (tensor.name == "layers.1.ffn.experts.1.w2.scale") bytes.front() = std::byte{150};
  });
  const ConvertReport report = convert(folder_ / "wide", out(), {.experts = WeightFormat::kFp8});
  EXPECT_EQ(report.unexpected_losses, std::vector<std::string>{"layers.1.ffn.experts.1.w2"});
  EXPECT_EQ(report.changed.at(TensorRole::kRoutedExpert).num_exact, 4 * 2 * 3 - 1);
}

TEST_F(Convert, RefusesScalesAndWeightsThatAreNoNumbers) {
  rewrite(in(), folder_ / "nan", small_config(), [](TensorHeader& tensor, std::vector<std::byte>& bytes) {
    if (tensor.name == "layers.1.attn.wkv.scale") bytes.front() = std::byte{255};
  });
  EXPECT_NE(refusal(folder_ / "nan", out()).find("\"layers.1.attn.wkv.scale\""), std::string::npos);
  rewrite(in(), folder_ / "code", small_config(), [](TensorHeader& tensor, std::vector<std::byte>& bytes) {
    if (tensor.name == "layers.1.attn.wkv.weight") bytes.front() = std::byte{0x7F};
  });
  EXPECT_NE(refusal(folder_ / "code", out(), {.dense = WeightFormat::kBF16}).find("not finite"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(Convert, AVisionTowerIsCopiedOrLeftOut) {
  test::EditedCheckpoint checkpoint(in());
  test::make_dspark(checkpoint);
  test::add_vision(checkpoint);
  const fs::path vision = folder_ / "vision";
  checkpoint.write(vision);
  EXPECT_NE(convert(vision, out(), {}).copied.find("vision, "), std::string::npos);
  expect_same_tensors(vision, out());
  const auto has_fields = [](const fs::path& of) {
    return nlohmann::json::parse(read_text_file(of / "config.json")).contains("vision_n_layers");
  };
  EXPECT_TRUE(has_fields(out()));
  const fs::path text = folder_ / "text";
  convert(vision, text, {.has_vision = false});
  EXPECT_FALSE(has_fields(text));
  const fs::path bare = folder_ / "bare";
  convert(text, bare, {.has_draft_head = false});
  const Checkpoint left(bare);
  EXPECT_EQ(load_config(bare).num_draft_blocks(), 0);
  for (const TensorInfo& tensor : left.tensors())
    EXPECT_FALSE(is_draft_tensor(tensor.name) || is_vision_tensor(tensor.name)) << tensor.name;
  EXPECT_EQ(read_model_files(bare).kind.contradictions, std::vector<std::string>{});
}

TEST_F(Convert, RefusesBadFolders) {
  EXPECT_NE(refusal(in(), in(), {.force = true}).find("same folder"), std::string::npos);
  EXPECT_NE(refusal(folder_ / "absent", out()).find("no such folder"), std::string::npos);
  EXPECT_NE(refusal(in(), "/proc/baleen").find("cannot create the folder"), std::string::npos);
  EXPECT_NE(refusal(in(), out(), {.dense = WeightFormat::kFp4}).find("dense weights cannot become FP4"),
            std::string::npos);
  fs::create_directory(out());
  put(out() / "precious.txt", "");
  EXPECT_NE(refusal(in(), out()).find("pass ‹force›"), std::string::npos);
  EXPECT_NE(refusal(in(), out(), {.force = true}).find("precious.txt"), std::string::npos);
  EXPECT_TRUE(fs::exists(out() / "precious.txt"));
}

TEST_F(Convert, RefusesToReplaceWhatIsNoCheckpoint) {
  EXPECT_EQ(refusal(in(), out()), "");
  put(out() / "lora.safetensors", "mine");
  fs::create_directory(out() / "notes");
  const std::string why = refusal(in(), out(), {.force = true});
  EXPECT_NE(why.find("lora.safetensors, notes"), std::string::npos) << why;
  EXPECT_EQ(read_text_file(out() / "lora.safetensors"), "mine");
  fs::remove(out() / "lora.safetensors");
  fs::remove(out() / "notes");
  EXPECT_EQ(refusal(in(), out(), {.force = true}), "");
}

TEST_F(Convert, ReplacesAWholeCheckpointAtOnce) {
  put(in() / "extra.json", "{}");
  EXPECT_EQ(refusal(in(), out(), {.max_shard_bytes = 150'000}), "");
  EXPECT_TRUE(fs::exists(out() / "extra.json"));
  fs::create_directory_symlink(out(), folder_ / "link");
  EXPECT_EQ(refusal(in(), folder_ / "link", {.force = true}), "");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_TRUE(fs::exists(out() / kSingleFileName));
  EXPECT_FALSE(fs::exists(out() / kIndexFileName)) << "of the checkpoint before";
}

TEST_F(Convert, RefusesAnOutputThatIsPartOfItsInput) {
  EXPECT_NE(refusal(in(), in() / "out").find("inside"), std::string::npos);
  EXPECT_NE(refusal(in(), folder_.path(), {.force = true}).find("inside"), std::string::npos);
  fs::create_directory_symlink(in(), folder_ / "again");
  EXPECT_NE(refusal(in(), folder_ / "again", {.force = true}).find("same folder"), std::string::npos);
  EXPECT_NE(refusal(in(), folder_ / "again" / "out").find("inside"), std::string::npos);
  // A folder of links to another's weights, as caches of downloads are.
  fs::create_directory(folder_ / "links");
  for (const auto& file : fs::directory_iterator(in()))
    fs::create_symlink(file.path(), folder_ / "links" / file.path().filename());
  EXPECT_NE(refusal(folder_ / "links", in(), {.force = true}).find("a link into"), std::string::npos);
}

TEST_F(Convert, CancelledLeavesTheOutputAsItWas) {
  EXPECT_EQ(refusal(in(), out()), "");
  const std::string before = read_text_file(out() / kSingleFileName);
  int asked = 0;
  const ConvertOptions options{
      .experts = WeightFormat::kFp8, .force = true, .cancelled = [&] { return ++asked > 20; }};
  EXPECT_NE(refusal(in(), out(), options).find("interrupted"), std::string::npos);
  EXPECT_EQ(read_text_file(out() / kSingleFileName), before);
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_EQ(entry.path().string().find(".partial-"), std::string::npos) << entry.path();
}

TEST_F(Convert, RemovesWhatAKilledRunLeft) {
  const fs::path left = folder_ / fmt::format(".{}.partial-abc123", out().filename().string());
  fs::create_directory(left);
  put(left / "model.safetensors.tmp-x1y2z3", "half");
  const fs::path other = folder_ / ".another.partial-abc123";
  fs::create_directory(other);
  EXPECT_EQ(refusal(in(), out()), "");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(other)) << "is another output's";
}

TEST_F(Convert, RefusesWhatDoesNotFitTogether) {
  put(in() / "config.json", config_text(with_experts(preset_config("tiny-flash"), 2)));
  EXPECT_NE(refusal(in(), out()).find("do not fit together"), std::string::npos);
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(Convert, AFullDiskLeavesNothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{200'000, 200'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ThreadPool pool(1);
    try {
      convert_checkpoint(in(), out(), {.max_shard_bytes = 150'000}, pool);  // fails at the embedding
    } catch (const Error&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(fs::exists(out()));
}

}  // namespace
}  // namespace baleen
