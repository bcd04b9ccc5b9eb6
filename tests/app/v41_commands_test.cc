// DeepSeek-V4.1 through the doors that people take: a tiny one runs, is converted and replies to text beside
// a vision tower; what another release may have is refused by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/baleen_program.h"
#include "tests/support/http_client.h"
#include "tests/support/releases.h"
#include "tests/support/run_program.h"
#include "tests/support/server_process.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using test::EditedCheckpoint;
using test::ProgramResult;

constexpr const char* kStories = "models/stories";

ProgramResult baleen(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  return test::run_program(arguments);
}

class V41Commands : public testing::Test {
 protected:
  void SetUp() override { std::ofstream(folder_ / "ids") << "1 2 3"; }

  const test::TemporaryFolder folder_;
};

/// A tiny one in the released layout, through the doors that people take.
TEST_F(V41Commands, ATinyV41Runs) {
  const fs::path model = folder_ / "model";
  const ProgramResult made = baleen({"init", model, "--preset", "tiny-v41", "--tokenizer", kStories});
  ASSERT_EQ(made.status, 0) << made.err;
  const ProgramResult inspect = baleen({"inspect", model});
  EXPECT_EQ(inspect.status, 0) << inspect.err;
  EXPECT_NE(inspect.out.find("config and tensors    fit together"), std::string::npos) << inspect.out;
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", "--model",       model, "--context",   "512",   "--threads",
                                       "1",   "--temperature", "0",   "--precision", "exact", "--max-tokens",
                                       "12"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.emplace_back("Once upon a time");
    const ProgramResult result = baleen(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const std::string text = run({});
  EXPECT_FALSE(text.empty());
  // How a prompt is cut says nothing of what comes out.
  EXPECT_EQ(run({"--chunk", "2"}), text);
  EXPECT_FALSE(run({"--chat", "--think", "37"}).empty());
}

/// What comes back from another format computes what went in, to the bit; what is not whole is refused.
TEST_F(V41Commands, ATinyV41IsConvertedThereAndBack) {
  const fs::path model = folder_ / "model";
  ASSERT_EQ(baleen({"init", model, "--preset", "tiny-v41", "--tokenizer", kStories}).status, 0);
  const auto logits = [&](const fs::path& of) {
    const fs::path out = folder_ / "logits";
    const ProgramResult result =
        baleen({"logits", "--model", of, "--tokens", folder_ / "ids", "--out", out, "--threads", "1"});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.err.find("left unread"), std::string::npos) << result.err;
    return read_text_file(out);
  };
  const auto convert = [&](const fs::path& in, const fs::path& out, std::vector<std::string> options) {
    options.insert(options.begin(), {"convert", in, out});
    const ProgramResult result = baleen(options);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find("lossless: every weight has the value it had"), std::string::npos)
        << result.out;
  };
  const std::string want = logits(model);
  convert(model, folder_ / "shards", {"--shard-size", "1MB"});
  EXPECT_EQ(logits(folder_ / "shards"), want);
  const std::pair<const char*, std::vector<std::string>> formats[] = {
      {"fp8", {"--experts", "fp8"}},
      {"nvfp4", {"--experts", "nvfp4"}},
      {"bf16", {"--experts", "bf16", "--dense", "bf16"}}};
  for (const auto& [name, options] : formats) {
    convert(model, folder_ / name, options);
    static_cast<void>(logits(folder_ / name));
    const fs::path back = folder_ / (std::string("from-") + name);
    convert(folder_ / name, back, {"--experts", "fp4", "--dense", "fp8"});
    EXPECT_EQ(logits(back), want) << name;
  }
  convert(model, folder_ / "bare", {"--no-draft-head"});
  EXPECT_EQ(logits(folder_ / "bare"), want);
  EditedCheckpoint damaged(model);
  damaged.tensors.erase("layers.1.engram.q_weight");
  damaged.write(folder_ / "damaged");
  const ProgramResult refused = baleen({"convert", folder_ / "damaged", folder_ / "out"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("tensor \"layers.1.engram.q_weight\": missing"), std::string::npos)
      << refused.err;
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

/// A vision checkpoint: `inspect` and every command say that the tower is not read, text is replied to, and
/// an image in any of the APIs is refused.
TEST_F(V41Commands, AV41WithAVisionTowerRepliesToText) {
  ASSERT_EQ(baleen({"init", folder_ / "text", "--preset", "tiny-v41", "--tokenizer", kStories}).status, 0);
  EditedCheckpoint vision(folder_ / "text");
  test::add_v41_vision(vision);
  const fs::path model = folder_ / "model";
  vision.write(model);
  constexpr const char* kUnread = "vision (vision.*, aligner.*, image_*, gate.bias_vl), 14 tensors, ";
  const ProgramResult inspect = baleen({"inspect", model});
  EXPECT_EQ(inspect.status, 0) << inspect.err;
  EXPECT_NE(inspect.out.find(fmt::format("left unread           {}", kUnread)), std::string::npos)
      << inspect.out;
  EXPECT_NE(inspect.out.find("vision                yes; tensor \""), std::string::npos) << inspect.out;
  const auto run = [&](const fs::path& of) {
    return baleen({"run", "--model", of, "--threads", "1", "--context", "512", "--temperature", "0",
                   "--max-tokens", "8", "Once"});
  };
  EXPECT_EQ(run(model).out, run(folder_ / "text").out);
  EXPECT_NE(run(model).err.find(fmt::format("left unread: {}", kUnread)), std::string::npos)
      << run(model).err;
  const ProgramResult converted = baleen({"convert", model, folder_ / "copy"});
  EXPECT_NE(converted.out.find("copied as they are, unread: vision, 14 tensors, "), std::string::npos)
      << converted.out << converted.err;
  const ProgramResult without = baleen({"convert", model, folder_ / "without", "--no-vision"});
  EXPECT_NE(without.out.find(fmt::format("left out: {}", kUnread)), std::string::npos) << without.out;

  test::ServerProcess server({test::kBaleenProgram, "serve", "--model", model, "--port", "0", "--quiet",
                              "--threads", "1", "--context", "1024"});
  const auto post = [&](const char* path, const Json& content, bool is_input = false) {
    Json request{{is_input ? "max_output_tokens" : "max_tokens", 4}};
    request[is_input ? "input" : "messages"] = Json::array({Json{{"role", "user"}, {"content", content}}});
    return test::http_request(server.port(), "POST", path, request.dump());
  };
  const Json text{{"type", "text"}, {"text", "u"}}, input_text{{"type", "input_text"}, {"text", "u"}};
  const char* url = "data:image/png;base64,iVBO";
  const Json image_url{{"type", "image_url"}, {"image_url", {{"url", url}}}};
  const Json input_image{{"type", "input_image"}, {"image_url", url}};
  const Json image{{"type", "image"}, {"source", {{"type", "base64"}, {"data", "iVBO"}}}};
  struct Api {
    const char* path;
    Json text, image;
    bool is_input = false;
  };
  const Api apis[] = {{"/v1/chat/completions", text, image_url},
                      {"/v1/chat/completions", text, input_image},
                      {"/v1/messages", text, image},
                      {"/v1/responses", input_text, input_image, true}};
  for (const Api& api : apis) {
    EXPECT_EQ(post(api.path, Json::array({api.text}), api.is_input).status, 200) << api.path;
    const test::HttpReply refused = post(api.path, Json::array({api.text, api.image}), api.is_input);
    EXPECT_EQ(refused.status, 400) << api.path << refused.body;
    EXPECT_NE(refused.body.find("content[1]: an image, and the model's vision tower is not loaded"),
              std::string::npos)
        << api.path << refused.body;
  }
  EXPECT_EQ(server.end(SIGTERM), 0);
}

/// What the October release may have and is not known is named by every command; nothing is guessed of it.
TEST_F(V41Commands, WhatIsUnknownIsNamed) {
  const std::pair<const char*, const char*> changes[] = {
      {"/text_config/engram_gate",
       "of \"text_config\" \"engram_gate\" is not known of DeepSeek-V4.1-Flash, and what it changes would be "
       "a guess"},
      {"/text_config/rope_scaling/attention_factor",
       "of \"rope_scaling\" \"attention_factor\" is not known of DeepSeek-V4.1-Flash"},
      {"/quantization_config/kv_cache_scheme",
       "of \"quantization_config\" \"kv_cache_scheme\" is not known of DeepSeek-V4.1-Flash"},
      {"/architectures", "\"architectures\": expected [\"DeepseekV41ForCausalLM\"], found"},
      {"/model_type", "\"model_type\": expected \"deepseek_v41\", found \"deepseek_v41_1017\""}};
  const fs::path model = folder_ / "model";
  ASSERT_EQ(baleen({"init", model, "--preset", "tiny-v41", "--tokenizer", kStories}).status, 0);
  const Json config = Json::parse(read_text_file(model / "config.json"));
  const std::vector<std::vector<std::string>> commands = {{"inspect", model},
                                                          {"plan", "--device", "h200", "--model", model},
                                                          {"simulate", "--model", model},
                                                          {"convert", model, folder_ / "out"},
                                                          {"run", "--model", model, "Once"}};
  for (const auto& [field, sentence] : changes) {
    Json changed = config;
    changed[Json::json_pointer(field)] = "deepseek_v41_1017";
    std::ofstream(model / "config.json") << changed.dump();
    for (const auto& command : commands) {
      const ProgramResult result = baleen(command);
      EXPECT_EQ(result.status, 1) << command[0];
      EXPECT_NE(result.err.find(sentence), std::string::npos) << command[0] << ": " << result.err;
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace
}  // namespace baleen
