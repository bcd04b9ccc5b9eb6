// GGUF files through the commands: the same model as safetensors gives the same bits, what is computed as it
// is stored is near the same values in float32, and everything else is said.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "tests/support/baleen_program.h"
#include "tests/support/compare.h"
#include "tests/support/gguf_of.h"
#include "tests/support/http_client.h"
#include "tests/support/run_program.h"
#include "tests/support/server_process.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using test::EditedCheckpoint;
using test::GgufOf;
using test::GgufOptions;
using test::ProgramResult;

constexpr const char* kStories = "models/stories";

ProgramResult baleen(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  return test::run_program(arguments);
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class GgufCommands : public testing::Test {
 protected:
  /// The stories model with BF16 dense matrices, written once.
  static const fs::path& bf16_folder() {
    static const test::TemporaryFolder folder;
    static const fs::path written = [] {
      const ProgramResult result = baleen({"convert", kStories, folder / "bf16", "--dense", "bf16"});
      EXPECT_EQ(result.status, 0) << result.err;
      return folder / "bf16";
    }();
    return written;
  }
  [[nodiscard]] GgufOf gguf(const GgufOptions& options = {}) const { return {checkpoint_, options}; }
  [[nodiscard]] fs::path write(const GgufOf& of, const std::string& name = "model.gguf") const {
    of.file.write(folder_ / name);
    return folder_ / name;
  }
  /// All arrays of the file that `logits` writes.
  [[nodiscard]] std::map<std::string, std::vector<float>> logits(
      const fs::path& model, const std::string& precision,
      const std::vector<std::string>& further = {}) const {
    std::ofstream(folder_ / "ids") << "0 11 205 1033 87 2500 640 9 9 31 77 1200 15 16 17 400 3999 12 5 6";
    std::vector<std::string> command{
        "logits",      "--model", model,       "--tokens", folder_ / "ids", "--out", folder_ / "out", "--mtp",
        "--precision", precision, "--threads", "2",        "--device",      "cpu"};
    command.insert(command.end(), further.begin(), further.end());
    const ProgramResult result = baleen(command);
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::string, std::vector<float>> arrays;
    if (result.status != 0) return arrays;
    const SafetensorsFile file(folder_ / "out");
    for (const TensorInfo& tensor : file.tensors()) {
      std::vector<float>& values = arrays[tensor.name];
      values.resize(static_cast<std::size_t>(tensor.num_elements()));
      std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    }
    return arrays;
  }

  const test::TemporaryFolder folder_;
  EditedCheckpoint checkpoint_{bf16_folder()};
};

TEST_F(GgufCommands, Bf16AndMxfp4HaveTheBitsOfTheSameSafetensors) {
  const fs::path model = write(gguf());
  for (const char* precision : {"released", "exact"}) {
    const auto want = logits(bf16_folder(), precision), found = logits(model, precision);
    ASSERT_EQ(want.size(), 2u);
    for (const auto& [name, values] : want)
      EXPECT_SAME_BITS(found.at(name), values) << name << ", " << precision;
  }
}

/// Ranks cut columns out of matrices that have to be made for that.
TEST_F(GgufCommands, TwoRanksHaveTheSameBits) {
  const auto want = logits(bf16_folder(), "released", {"--tp", "2"});
  const auto found = logits(write(gguf()), "released", {"--tp", "2"});
  EXPECT_SAME_BITS(found.at("logits"), want.at("logits"));
}

TEST_F(GgufCommands, PartsAreTheSameModel) {
  const GgufOf whole = gguf();
  for (int number = 0; number < 2; ++number) {
    test::GgufBuilder part = number == 0 ? whole.file : test::GgufBuilder();
    part.tensors.clear();
    part.key("split.no", GgufValueType::kU16, test::gguf_bytes(static_cast<std::uint16_t>(number)));
    part.key("split.count", GgufValueType::kU16, test::gguf_bytes(std::uint16_t{2}));
    for (std::size_t i = 0; i < whole.file.tensors.size(); ++i)
      if (i % 2 == static_cast<std::size_t>(number)) part.tensors.push_back(whole.file.tensors[i]);
    part.write(folder_ / ("m-0000" + std::to_string(number + 1) + "-of-00002.gguf"));
  }
  const auto want = logits(bf16_folder(), "released");
  EXPECT_SAME_BITS(logits(folder_ / "m-00002-of-00002.gguf", "released").at("logits"), want.at("logits"));
  EXPECT_SAME_BITS(logits(folder_.path(), "released").at("logits"), want.at("logits"));  // by the folder
}

TEST_F(GgufCommands, Q8_0IsComputedAsItIs) {
  // A block of zeros, whose scale is zero.
  std::ranges::fill(std::span(checkpoint_.tensors.at("layers.0.attn.wq_a.weight").bytes).first(64),
                    std::byte{0});
  const GgufOf of = gguf({.q8_0 = true});
  const fs::path model = write(of);
  // The same values as float32 matrices of a checkpoint, which are exact: only sums are in another order.
  EditedCheckpoint floats(bf16_folder());
  for (const auto& [name, values] : of.rounded) {
    test::StoredTensor& tensor = floats.tensors.at(name);
    tensor.dtype = DType::kF32;
    tensor.bytes.resize(values.size() * sizeof(float));
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  }
  floats.write(folder_ / "floats");
  const auto want = logits(folder_ / "floats", "exact"), found = logits(model, "exact");
  const auto unrounded = logits(bf16_folder(), "exact");
  for (const auto& [name, values] : want) {
    EXPECT_CLOSE(found.at(name), values, {.norm = 1e-5}) << name;
    // Another model than the unrounded one, by far more than the order of sums.
    EXPECT_NE(test::difference(unrounded.at(name), values, {.norm = 1e-4}), "") << name;
  }
}

TEST_F(GgufCommands, TheTokenizerIsInTheFile) {
  const fs::path model = write(gguf());
  const nlohmann::json line{
      {"text", "Once upon a time <｜User｜> 12345 naïve 漢字<think></think>\n\n  it's\n"}};
  const auto ids = [&](const std::string& from) {
    const ProgramResult result =
        test::run_program({test::kBaleenProgram, "tokenize", "--model", from}, {.in = line.dump() + "\n"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  EXPECT_EQ(ids(model), ids(kStories));
}

TEST_F(GgufCommands, RunAndServeTellTheSameStory) {
  const fs::path model = write(gguf());
  const auto run = [](const fs::path& from) {
    return baleen({"run", "--model", from, "--threads", "1", "--context", "256", "--temperature", "0",
                   "--max-tokens", "24", "Once upon a time"});
  };
  const ProgramResult want = run(bf16_folder()), found = run(model);
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out, want.out);
  test::ServerProcess server({test::kBaleenProgram, "serve", "--model", model, "--port", "0", "--quiet",
                              "--threads", "1", "--context", "1024"});
  const Json request{{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 24}};
  const test::HttpReply reply = test::http_request(server.port(), "POST", "/v1/completions", request.dump());
  EXPECT_EQ(reply.status, 200) << reply.body;
  const std::string text = Json::parse(reply.body)["choices"][0]["text"];
  EXPECT_TRUE(has(want.out, text)) << text << "\n" << want.out;
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST_F(GgufCommands, InspectSaysWhatTheFileHas) {
  const ProgramResult result = baleen({"inspect", write(gguf({.q8_0 = true}))});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"release               DeepSeek-V4; key general.architecture: \"deepseek4\"\n",
        "names                 GGUF's names; as \"blk.0.attn_q_a.weight\"\n",
        "draft head            MTP, 1 block; ",
        "routed experts        MXFP4; blk.0.ffn_gate_exps.weight: MXFP4 [16, ",
        "dense matrices        Q8_0; blk.0.attn_q_a.weight: Q8_0 [256, 256]\n",
        "prompt profile        preview; tokenizer.chat_template: \"Reasoning Effort: Absolute maximum\"",
        "  MXFP4 ", "  Q8_0 ", "config and tensors    fit together\n"})
    EXPECT_TRUE(has(result.out, part)) << part << "\n" << result.out;
  EXPECT_FALSE(has(result.out, "contradiction")) << result.out;
}

TEST_F(GgufCommands, PlanCountsWhatIsMadeInMemory) {
  const auto weights = [](const fs::path& model) {
    const ProgramResult result =
        baleen({"plan", "--device", "cpu", "--context", "256", "--json", "--model", model});
    EXPECT_EQ(result.status, 0) << result.err;
    return Json::parse(result.out)["weight_bytes"].get<std::int64_t>();
  };
  EXPECT_EQ(weights(bf16_folder()), 0);
  EXPECT_GT(weights(write(gguf())), 1'000'000);
}

TEST_F(GgufCommands, ThePromptProfileIsTheTemplates) {
  const auto said = [&](const GgufOptions& options, std::vector<std::string> further) {
    further.insert(further.begin(), {"run", "--model", write(gguf(options)), "--threads", "1", "--context",
                                     "256", "--quiet", "--chat", "--max-tokens", "1", "Once"});
    const ProgramResult result = baleen(further);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  constexpr const char* kWarning = "the file's chat template is the preview's";
  const std::string official = "Reasoning Effort: Absolute maximum, Reasoning Effort: Beyond maximum";
  const ProgramResult inspect = baleen({"inspect", write(gguf({.chat_template = official}))});
  EXPECT_TRUE(has(inspect.out, "prompt profile        official; tokenizer.chat_template: ")) << inspect.out;
  const Json line{{"messages", {{{"role", "user"}, {"content", "u"}}}},
                  {"thinking_mode", "thinking"},
                  {"reasoning_effort", "low"}};
  const ProgramResult encoded = test::run_program(
      {test::kBaleenProgram, "encode-chat", "--model", folder_ / "model.gguf"}, {.in = line.dump() + "\n"});
  EXPECT_TRUE(has(encoded.out, "\"prompt\""))
      << encoded.out << encoded.err;  // the preview has no such effort
  EXPECT_FALSE(has(said({}, {}), kWarning));
  const std::string wrong = said({.name = "DeepSeek-V4-Flash-0731"}, {});
  EXPECT_TRUE(has(wrong, kWarning)) << wrong;
  EXPECT_TRUE(has(wrong, "general.name is \"DeepSeek-V4-Flash-0731\"")) << wrong;
  EXPECT_TRUE(has(wrong, "--prompt-profile official")) << wrong;
  EXPECT_FALSE(has(said({.name = "V4-0731", .chat_template = official}, {}), kWarning));
}

/// Q2_K: 16 bytes of scales, 64 of codes, two halves.
std::string q2_k_blocks(std::int64_t elements) {
  std::string blocks;
  for (std::int64_t block = 0; block < elements / 256; ++block) {
    for (int i = 0; i < 80; ++i) blocks += static_cast<char>((block * 31 + i * 7) % 251);
    blocks += test::gguf_bytes(test::to_f16(0.004F)) + test::gguf_bytes(test::to_f16(0.006F));
  }
  return blocks;
}

TEST_F(GgufCommands, OtherTypesAreConvertedWithTheLossSaid) {
  const fs::path model = write(gguf({.q8_0 = true, .expert_type = 10, .expert_blocks = q2_k_blocks}));
  const ProgramResult run = baleen({"run", "--model", model, "Once"});
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(has(run.err, "blk.0.ffn_gate_exps.weight is Q2_K [16, ")) << run.err;
  EXPECT_TRUE(has(run.err, "`baleen convert FILE FOLDER` writes a checkpoint that runs")) << run.err;
  const ProgramResult inspect = baleen({"inspect", model});
  EXPECT_EQ(inspect.status, 1);
  EXPECT_TRUE(has(inspect.out, "routed experts        Q2_K; ")) << inspect.out;

  const ProgramResult converted = baleen({"convert", model, folder_ / "out"});
  EXPECT_EQ(converted.status, 0) << converted.err;
  for (const char* part :
       {"experts f32 -> fp8, dense q8 -> bf16", "lost of single tensors:\n", "  layers.0.ffn.experts.*.w1 ",
        "  layers.0.attn.wq_a ", "read back and verified\n"})
    EXPECT_TRUE(has(converted.out, part)) << part << "\n" << converted.out;
  const ProgramResult again = baleen(
      {"run", "--model", folder_ / "out", "--threads", "1", "--context", "256", "--max-tokens", "4", "Once"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(fs::exists(folder_ / "out/tokenizer.json"));
  EXPECT_TRUE(fs::exists(folder_ / "out/chat_template.jinja"));
}

TEST_F(GgufCommands, Mxfp4AndBf16AreConvertedExactly) {
  const ProgramResult converted = baleen({"convert", write(gguf({.name = "V4-0731"})), folder_ / "out"});
  EXPECT_EQ(converted.status, 0) << converted.err;
  EXPECT_TRUE(has(converted.out, "which --prompt-profile official takes")) << converted.out;
  EXPECT_TRUE(has(converted.out, "lossless: every weight has the value it had")) << converted.out;
  const Checkpoint want(bf16_folder()), found(folder_ / "out");
  ASSERT_EQ(found.tensors().size(), want.tensors().size());
  for (const TensorInfo& tensor : want.tensors()) {
    const TensorInfo& other = found.at(tensor.name);
    EXPECT_EQ(other.type_text(), tensor.type_text());
    EXPECT_TRUE(std::ranges::equal(other.bytes, tensor.bytes)) << tensor.name;
  }
  EXPECT_EQ(baleen({"tokenize", "--model", folder_ / "out"}).status, 0);
}

TEST_F(GgufCommands, EveryTensorIsUsedOrNamed) {
  const auto refusal = [&](const std::function<void(test::GgufBuilder&)>& change) {
    GgufOf of = gguf();
    change(of.file);
    const ProgramResult result = baleen({"run", "--model", write(of), "Once"});
    EXPECT_EQ(result.status, 1) << result.err;
    return result.err;
  };
  const auto find = [](test::GgufBuilder& file, const std::string& name) -> test::GgufBuilder::Tensor& {
    return *std::ranges::find(file.tensors, name, &test::GgufBuilder::Tensor::name);
  };
  EXPECT_TRUE(has(refusal([](auto& file) { file.tensor("blk.0.other.weight", {4}, 24, "abcd"); }),
                  "tensor \"blk.0.other.weight (I8 [4])\" in "));
  EXPECT_TRUE(has(refusal([&](auto& file) {
                    std::erase_if(file.tensors, [](const auto& t) { return t.name == "output_norm.weight"; });
                  }),
                  "tensor \"norm.weight\": missing"));
  EXPECT_TRUE(has(refusal([&](auto& file) {
                    find(file, "blk.1.attn_q_a.weight").shape = {128, 512};
                  }),
                  "tensor \"blk.1.attn_q_a.weight (BF16 [128, 512])\" in "));
  EXPECT_TRUE(
      has(refusal([&](auto& file) { find(file, "blk.1.attn_q_a.weight").type = 40; }), "its type has id 40"));
  EXPECT_TRUE(has(refusal([](auto& file) {
                    std::erase_if(file.tensors, [](const auto& t) { return t.name.starts_with("blk.5."); });
                  }),
                  "tensor \"layers.5."));
}

TEST_F(GgufCommands, OtherFilesHaveASentence) {
  const auto refusal = [&](const std::function<void(test::GgufBuilder&)>& fill) {
    test::GgufBuilder file;
    fill(file);
    file.write(folder_ / "other.gguf");
    const ProgramResult result = baleen({"inspect", folder_ / "other.gguf"});
    EXPECT_EQ(result.status, 1);
    return result.err;
  };
  EXPECT_TRUE(has(refusal([](auto& file) { file.key("general.architecture", "dflash"); }),
                  "a DSpark draft head (architecture dflash)"));
  EXPECT_TRUE(has(refusal([](auto& file) { file.key("general.architecture", "llama"); }),
                  "architecture \"llama\", expected"));
  EXPECT_TRUE(has(refusal([](auto& file) { file.key("general.architecture", "deepseek41"); }),
                  "this is DeepSeek-V4.1"));
  EXPECT_TRUE(has(refusal([](auto&) {}), "architecture that it does not name"));
  EXPECT_TRUE(has(refusal([](auto& file) {
                    file.key("general.architecture", "deepseek4");
                    file.key("deepseek4.block_count", std::uint32_t{44});
                    file.tensor("blk.43.nextn.enorm.weight", {1}, 0, "1234");
                  }),
                  "holds an MTP block alone (blk.43.nextn.*)"));
  EXPECT_TRUE(has(refusal([](auto& file) {
                    file.key("general.architecture", "deepseek4");
                    file.key("deepseek4.block_count", std::uint32_t{2});
                    file.tensor("blk.0.attn_q_a.weight", {1}, 0, "1234");
                  }),
                  "\"deepseek4.block_count\" is 2, there are tensors of 1 layers"));
}

}  // namespace
}  // namespace baleen
