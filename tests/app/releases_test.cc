// The program on checkpoints of other releases and on what is none: the same text, one line about what is
// left out, and one sentence for every command.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/presets.h"
#include "tests/support/baleen_program.h"
#include "tests/support/header_only.h"
#include "tests/support/http_client.h"
#include "tests/support/releases.h"
#include "tests/support/run_program.h"
#include "tests/support/server_process.h"
#include "tests/support/v41_headers.h"

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

class ReleaseCommands : public testing::Test {
 protected:
  [[nodiscard]] fs::path dspark() const {
    EditedCheckpoint checkpoint(kStories);
    test::make_dspark(checkpoint);
    checkpoint.write(folder_ / "dspark");
    return folder_ / "dspark";
  }
  [[nodiscard]] fs::path gptq() const {
    EditedCheckpoint checkpoint(kStories);
    test::replace_experts(checkpoint, [&](const std::string& stem, std::int64_t out, std::int64_t in) {
      checkpoint.add(stem + ".qweight", DType::kI32, {in / 8, out});
      checkpoint.add(stem + ".qzeros", DType::kI32, {in / 128, out / 8});
      checkpoint.add(stem + ".scales", DType::kF16, {in / 128, out});
    });
    checkpoint.write(folder_ / "gptq");
    return folder_ / "gptq";
  }
  /// Every command that opens a checkpoint, with `model`.
  [[nodiscard]] std::vector<std::vector<std::string>> commands(const std::string& model) const {
    return {{"run", "--model", model, "Once"},
            {"chat", "--model", model},
            {"serve", "--model", model, "--port", "0"},
            {"plan", "--device", "h200", "--model", model},
            {"simulate", "--model", model},
            {"inspect", model},
            {"convert", model, folder_ / "out"},
            {"logits", "--model", model, "--tokens", folder_ / "ids", "--out", folder_ / "logits"},
            {"perplexity", "--model", model, "--text", folder_ / "ids"},
            {"bench", "--model", model}};
  }
  void SetUp() override { std::ofstream(folder_ / "ids") << "1 2 3"; }

  const test::TemporaryFolder folder_;
};

TEST_F(ReleaseCommands, DsparkWritesWhatItsMainModelWrites) {
  const auto run = [](const fs::path& model) {
    return baleen({"run", "--model", model, "--threads", "1", "--context", "256", "--temperature", "0",
                   "--max-tokens", "24", "Once upon a time"});
  };
  const ProgramResult want = run(kStories), found = run(dspark());
  EXPECT_EQ(found.status, 0) << found.err;
  EXPECT_EQ(found.out, want.out);
  EXPECT_EQ(found.err.find("left unread"), std::string::npos) << found.err;
}

TEST_F(ReleaseCommands, DsparkIsServedWithDraftsAndWithout) {
  const std::string log = folder_ / "log";
  const auto command = [](const std::string& model) {
    return std::vector<std::string>{
        test::kBaleenProgram, "serve", "--model",   model, "--port", "0", "--quiet",
        "--threads",          "1",     "--context", "1024"};
  };
  const auto reply = [](const test::ServerProcess& server) {
    const Json request{{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 16}};
    const test::HttpReply found =
        test::http_request(server.port(), "POST", "/v1/completions", request.dump());
    EXPECT_EQ(found.status, 200) << found.body;
    return Json::parse(found.body)["choices"][0]["text"];
  };
  test::ServerProcess want(command(kStories));
  test::ServerProcess server(
      command(dspark()), [&log] { ::dup2(::open(log.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO); });
  EXPECT_EQ(reply(server), reply(want));
  EXPECT_EQ(server.end(SIGTERM), 0);
  std::vector<std::string> with_drafts = command(dspark());
  with_drafts.insert(with_drafts.end(), {"--speculate", "5"});
  test::ServerProcess drafting(with_drafts);
  EXPECT_EQ(reply(drafting), reply(want));
  EXPECT_EQ(drafting.end(SIGTERM), 0);
  const std::string said = read_text_file(log);
  // 0731 and DSpark differ in the encoder alone, and there is none here.
  EXPECT_NE(
      said.find("prompt profile preview, assumed: there is no encoding/encoding_dsv4.py; V4-Flash-0731 and "
                "V4-Pro-0813 have official: --prompt-profile says which"),
      std::string::npos)
      << said;
}

TEST_F(ReleaseCommands, PromptProfileIsSaidWhereItMatters) {
  const auto said = [](const fs::path& model, std::vector<std::string> further) {
    further.insert(further.begin(), {"run", "--model", model, "--threads", "1", "--context", "256", "--quiet",
                                     "--max-tokens", "1", "Once"});
    const ProgramResult result = baleen(further);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.err;
  };
  const fs::path model = dspark();
  constexpr const char* kProfile = "prompt profile ";
  EXPECT_EQ(said(model, {}).find(kProfile), std::string::npos);  // no prompt is made
  EXPECT_NE(said(model, {"--chat"}).find("prompt profile preview, assumed"), std::string::npos);
  EXPECT_EQ(said(model, {"--chat", "--prompt-profile", "preview"}).find(kProfile), std::string::npos);
  test::write_encoder(model, test::kOfficialEncoder);
  EXPECT_EQ(said(model, {"--chat"}).find(kProfile), std::string::npos);  // no guess
  EXPECT_EQ(said(kStories, {"--chat"}).find(kProfile), std::string::npos);
}

/// What `encode-chat` makes of "u" with that effort, or its error.
std::string encoded(std::vector<std::string> options, const char* mode, const Json& effort) {
  options.insert(options.begin(), {test::kBaleenProgram, "encode-chat"});
  const Json line{{"messages", {{{"role", "user"}, {"content", "u"}}}},
                  {"thinking_mode", mode},
                  {"reasoning_effort", effort}};
  const ProgramResult result = test::run_program(options, {.in = line.dump() + "\n"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Json reply = Json::parse(result.out);
  return reply.contains("prompt") ? reply["prompt"] : reply["error"];
}

/// The stub encoders of the releases, one of neither, and none: prompts follow the checkpoint's.
TEST_F(ReleaseCommands, PromptsFollowTheEncoderOfTheFolder) {
  const fs::path model = folder_ / "model";
  fs::create_directory(model);
  fs::copy_file(fs::path(kStories) / "config.json", model / "config.json");
  const std::string bos = "<｜begin▁of▁sentence｜>", turn = "<｜User｜>u<｜Assistant｜>";
  const std::string plain = bos + turn + "<think>", chat = bos + turn + "</think>";
  const std::string absolute = bos + "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n";
  const std::string beyond =
      bos + "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n";
  const auto expect_preview = [&](const std::vector<std::string>& options) {
    EXPECT_EQ(encoded(options, "thinking", nullptr), plain);
    EXPECT_EQ(encoded(options, "thinking", "high"), plain);
    EXPECT_EQ(encoded(options, "thinking", "max").find(absolute), 0u);
    EXPECT_EQ(encoded(options, "chat", "max"), chat);
    EXPECT_EQ(encoded(options, "thinking", "low"),
              "reasoning_effort: expected high or max (prompt profile preview), found \"low\"");
  };
  const auto expect_official = [&](const std::vector<std::string>& options) {
    EXPECT_EQ(encoded(options, "thinking", nullptr), plain);
    EXPECT_EQ(encoded(options, "thinking", "low"), plain);
    EXPECT_EQ(encoded(options, "thinking", "high").find(absolute), 0u);
    EXPECT_EQ(encoded(options, "thinking", "max").find(beyond), 0u);
    EXPECT_EQ(encoded(options, "chat", "max"), chat);
    EXPECT_EQ(encoded(options, "thinking", "xhigh"),
              "reasoning_effort: expected low, high or max (prompt profile official), found \"xhigh\"");
  };
  const std::vector<std::string> of_model{"--model", model};
  expect_preview({});
  expect_preview(of_model);
  expect_official({"--model", model, "--prompt-profile", "official"});
  test::write_encoder(model, test::kOfficialEncoder);
  expect_official(of_model);
  expect_preview({"--model", model, "--prompt-profile", "preview"});
  test::write_encoder(model, test::kPreviewEncoder);
  expect_preview(of_model);
  test::write_encoder(model, "REASONING_EFFORT_MAPPINGS = {}\n");
  expect_preview(of_model);
  EXPECT_EQ(baleen({"encode-chat", "--model", folder_ / "absent"}).status, 1);
}

/// V4.1's encoder says which numbers words mean; a number means itself.
TEST_F(ReleaseCommands, PromptsOfV41HaveTheNumbersOfItsEncoder) {
  const fs::path model = folder_ / "model";
  fs::create_directory(model);
  std::ofstream(model / "config.json") << R"({"model_type": "deepseek_v41"})";
  const std::vector<std::string> of_model{"--model", model}, imposed{"--prompt-profile", "v4.1"};
  const auto of_number = [](int number) {
    return "<｜begin▁of▁sentence｜><｜System｜>Reasoning Effort: " + std::to_string(number) +
           " (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
           "<｜User｜>u<｜Assistant｜><think>";
  };
  for (const auto& options : {of_model, imposed}) {
    EXPECT_EQ(encoded(options, "thinking", nullptr), of_number(75));
    EXPECT_EQ(encoded(options, "thinking", "low"), of_number(50));
    EXPECT_EQ(encoded(options, "thinking", 37), of_number(37));
    EXPECT_EQ(encoded(options, "chat", 37), "<｜begin▁of▁sentence｜><｜User｜>u<｜Assistant｜></think>");
    EXPECT_EQ(
        encoded(options, "thinking", 101),
        "reasoning_effort: expected low, high, max or a number from 1 to 100 (prompt profile v4.1), found "
        "\"101\"");
  }
  test::write_encoder(model,
                      "REASONING_EFFORT_MAPPINGS = {'low': 25, 'high': 50, 'xhigh': 75, 'max': 100}\n"
                      "DEFAULT_REASONING_EFFORT = 'high'\n",
                      "encoding.py");
  for (const auto& options :
       {of_model, std::vector<std::string>{"--model", model, "--prompt-profile", "v4.1"}}) {
    EXPECT_EQ(encoded(options, "thinking", "low"), of_number(25));
    EXPECT_EQ(encoded(options, "thinking", "xhigh"), of_number(75));
    EXPECT_EQ(encoded(options, "thinking", nullptr), of_number(50));
  }
  const Json call{{"text",
                   "</think>\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n"
                   "</｜DSML｜ calls><｜end▁of▁sentence｜>"},
                  {"thinking_mode", "thinking"}};
  const auto parsed = [&call](const std::string& profile) {
    const ProgramResult result = test::run_program(
        {test::kBaleenProgram, "parse-chat", "--prompt-profile", profile}, {.in = call.dump() + "\n"});
    return Json::parse(result.out);
  };
  EXPECT_EQ(parsed("v4.1")["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_TRUE(parsed("official").contains("error"));
}

TEST_F(ReleaseCommands, ThinkTakesTheEffortsOfTheModel) {
  const auto run = [](const fs::path& model, const std::string& effort) {
    return baleen({"run", "--model", model, "--threads", "1", "--context", "512", "--quiet", "--max-tokens",
                   "1", "--chat", "--think", effort, "Once"});
  };
  const fs::path model = dspark();
  test::write_encoder(model, test::kOfficialEncoder);
  for (const char* effort : {"off", "low", "high", "max"}) EXPECT_EQ(run(model, effort).status, 0) << effort;
  for (const char* effort : {"off", "high", "max"}) EXPECT_EQ(run(kStories, effort).status, 0) << effort;
  constexpr const char* kSentence =
      "--think: expected off, high or max (prompt profile preview), found \"low\"";
  for (const ProgramResult& refused :
       {run(kStories, "low"), baleen({"chat", "--model", kStories, "--think", "low"})}) {
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.err.find(kSentence), std::string::npos) << refused.err;
  }
  EXPECT_EQ(run(model, "medium").status, 2);  // what no profile has
  EXPECT_EQ(run(model, "101").status, 2);
  EXPECT_NE(run(model, "37")
                .err.find("--think: expected off, low, high or max (prompt profile official), found "
                          "\"37\""),
            std::string::npos);
  const ProgramResult imposed =
      baleen({"run", "--model", kStories, "--threads", "1", "--context", "512", "--quiet", "--max-tokens",
              "1", "--prompt-profile", "v4.1", "--chat", "--think", "37", "Once"});
  EXPECT_EQ(imposed.status, 0) << imposed.err;
  EXPECT_NE(imposed.err.find(
                "prompt profile v4.1: the tokenizer has no token <｜System｜>, which is spelled as text"),
            std::string::npos)
      << imposed.err;
}

TEST_F(ReleaseCommands, TheServersEffortsAreTheEncoders) {
  const fs::path model = dspark();
  test::write_encoder(model, test::kOfficialEncoder);
  test::ServerProcess server({test::kBaleenProgram, "serve", "--model", model, "--port", "0", "--quiet",
                              "--threads", "1", "--context", "1024"});
  const auto tokens = [&](const char* effort) {
    const Json request{{"messages", {{{"role", "user"}, {"content", "u"}}}}, {"reasoning_effort", effort}};
    return Json::parse(test::http_request(server.port(), "POST", "/tokenize", request.dump()).body)["count"]
        .get<int>();
  };
  EXPECT_EQ(tokens("minimal"), tokens("none"));
  EXPECT_GT(tokens("high"), tokens("low") + 50);
  EXPECT_EQ(tokens("xhigh"), tokens("high"));
  EXPECT_GT(tokens("max"), tokens("high"));
  const Json listed = Json::parse(test::http_request(server.port(), "GET", "/v1/models", "").body)["data"][0];
  EXPECT_EQ(listed["prompt_profile"], "official");
  EXPECT_EQ(listed["reasoning"]["supported_efforts"], Json({"none", "low", "high", "max"}));
  EXPECT_EQ(server.end(SIGTERM), 0);
}

TEST_F(ReleaseCommands, WhatDsparkDoesNotDoIsRefused) {
  const fs::path model = dspark();
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"logits", "--model", model, "--tokens", folder_ / "ids", "--out", folder_ / "out", "--mtp"},
       "--mtp: the DSpark head gives no logits of a text's own rows; leave it out"},
      {{"serve", "--model", model, "--port", "0", "--speculate", "6"},
       "draft tokens: 6 wanted, the DSpark head drafts 5 at most"}};
  for (const auto& [command, sentence] : cases) {
    const ProgramResult result = baleen(command);
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_NE(result.err.find(sentence), std::string::npos) << command[0] << ": " << result.err;
  }
}

/// "fits" is said of nothing that `run` refuses.
TEST_F(ReleaseCommands, PlanChecksTensors) {
  EditedCheckpoint checkpoint(kStories);
  checkpoint.tensors.erase("layers.3.attn.wo_b.scale");
  checkpoint.write(folder_ / "damaged");
  const ProgramResult plan = baleen({"plan", "--device", "h200", "--model", folder_ / "damaged"});
  EXPECT_EQ(plan.status, 1) << plan.out;
  EXPECT_NE(plan.err.find("tensor \"layers.3.attn.wo_b.scale\": missing"), std::string::npos) << plan.err;
  EXPECT_EQ(baleen({"run", "--model", folder_ / "damaged", "Once"}).err, plan.err);
}

TEST_F(ReleaseCommands, OneSentenceForAForeignFormat) {
  for (const auto& command : commands(gptq())) {
    const ProgramResult result = baleen(command);
    EXPECT_EQ(result.status, 1) << command[0] << ": " << result.err;
    EXPECT_NE(result.err.find(
                  "gptq: routed experts are GPTQ, which baleen does not read yet (layers.0.ffn.experts.0.w1: "
                  "qweight I32 ["),
              std::string::npos)
        << command[0] << ": " << result.err;
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
}

/// Some repositories of GGUF files have a config.json beside them, for which alone `plan` would plan.
TEST_F(ReleaseCommands, OneSentenceForADamagedGgufFile) {
  fs::create_directory(folder_ / "gguf");
  fs::copy_file(fs::path(kStories) / "config.json", folder_ / "gguf/config.json");
  std::ofstream(folder_ / "gguf/model.gguf") << "GGUF";
  for (const auto& command : commands(folder_ / "gguf")) {
    const ProgramResult result = baleen(command);
    EXPECT_EQ(result.status, 1) << command[0] << ": " << result.err;
    EXPECT_NE(result.err.find(
                  "gguf/model.gguf: the version should take 4 bytes from byte 4 on, the file ends after 0"),
              std::string::npos)
        << command[0] << ": " << result.err;
  }
}

TEST_F(ReleaseCommands, OneSentenceForANameOfTheHub) {
  for (const auto& command : commands("deepseek-ai/DeepSeek-V4-Flash-0731")) {
    const ProgramResult result = baleen(command);
    EXPECT_EQ(result.status, 1) << command[0] << ": " << result.err;
    EXPECT_NE(result.err.find(
                  "It looks like a model on the Hugging Face Hub, and baleen downloads nothing: fetch its "
                  "files (hf download deepseek-ai/DeepSeek-V4-Flash-0731 --local-dir FOLDER)"),
              std::string::npos)
        << command[0] << ": " << result.err;
  }
}

/// At the published sizes, of which headers alone are there: no command reads weights to say what they are.
TEST_F(ReleaseCommands, HeadersAreEnoughToInspectAndToPlan) {
  ModelConfig config = preset_config("flash");
  config.draft_kind = DraftKind::kDspark;
  config.dspark = {
      .block_size = 5, .noise_token_id = 128799, .target_layer_ids = {40, 41, 42}, .markov_rank = 256};
  config.compress_ratios.insert(config.compress_ratios.end(), 2, 0);
  test::write_header_only(folder_ / "model", test::dspark_headers(config, {}), config_text(config));
  test::write_encoder(folder_ / "model", test::kOfficialEncoder);
  const ProgramResult inspect = baleen({"inspect", folder_ / "model"});
  EXPECT_EQ(inspect.status, 0) << inspect.err;
  for (const char* part :
       {"  published as        V4-Flash-0731; config.json's sizes; DSpark; encoding/encoding_dsv4.py",
        "config and tensors    fit together"})
    EXPECT_NE(inspect.out.find(part), std::string::npos) << part << "\n" << inspect.out;
  const ProgramResult plan = baleen({"plan", "--device", "h200", "--model", folder_ / "model"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_EQ(plan.err.find("left unread"), std::string::npos) << plan.err;
}

/// V4.1-Flash as published, of which headers are there: it is described and planned, and running it ends at
/// the first thing that headers do not have, its tokenizer.
TEST_F(ReleaseCommands, V41IsInspectedAndPlannedByItsHeaders) {
  const fs::path model = folder_ / "model";
  test::write_header_only(model, test::v41_headers(), test::v41_config().dump());
  const ProgramResult inspect = baleen({"inspect", model});
  EXPECT_EQ(inspect.status, 0) << inspect.err;
  for (const char* part :
       {"release               DeepSeek-V4.1; config.json, \"model_type\": \"deepseek_v41\"",
        "  published as        V4.1-Flash or V4.1-Flash-1017; config.json's sizes; ",
        "dense matrices        FP8, E8M0 scales of 32 x 32; ",
        "left unread           vision (vision.*, aligner.*, image_*, gate.bias_vl), 309 tensors, ",
        "prompt profile        v4.1; assumed: there is no encoding/encoding.py; efforts are V4.1-Flash's: "
        "low 50, "
        "high 75, max 100, default high\n",
        "  CSA reindexed       4\n", "  CSA reused          30\n",
        "  of the draft head   128 routed, 3 a token",
        "  of Engram tables    196,613,849,600, in 2 before layers 1, 14",
        "  read per token      48 rows of 256 values, 12,672 bytes",
        "  Engram tables           202,758,032,400 in 4 tensors, 196,613,849,600 parameters",
        "KV bytes              890.00 a token at long context (288 a vector, 68 an indexer key)",
        "config and tensors    fit together"})
    EXPECT_NE(inspect.out.find(part), std::string::npos) << part << "\n" << inspect.out;
  const ProgramResult tensors = baleen({"inspect", model, "--tensors"});
  for (const char* line : {"layers.14.engram.embed.weight  F8_E4M3 [384016682, 256]  Engram tables\n",
                           "layers.20.attn.indexer.wk.weight  BF16 [128, 512]  indexers\n",
                           "mtp.2.markov_head.embed.weight  BF16 [129280, 256]  draft head\n",
                           "vision.norm.weight  BF16 [1024]  left unread\n"})
    EXPECT_NE(tensors.out.find(line), std::string::npos) << line;
  EXPECT_EQ(tensors.out.find("not known\n"), std::string::npos);
  const ProgramResult plan = baleen({"plan", "--device", "h200", "--model", model, "--json"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  const Json report = Json::parse(plan.out);
  EXPECT_EQ(report["cache_bytes_per_token"], 890);
  EXPECT_EQ(report["engram_table_bytes"], 202'758'032'400);
  EXPECT_EQ(report["engram_place"], "the host's memory");
  EXPECT_TRUE(report["fits"]);
  // Beside the tables and the head's experts, which are not run: 299.3 GB, experts that have no room on the
  // host; buffers and slots for their copies come on top.
  const std::int64_t on_device = report["weight_bytes"], on_host = report["host_expert_bytes"];
  EXPECT_GT(report["host_experts"], 0);
  EXPECT_GT(on_device + on_host, 299'300'000'000);
  EXPECT_LT(on_device + on_host, 320'000'000'000);
  EXPECT_LE(report["total_bytes"], report["memory_bytes"]);
  EXPECT_GT(report["outlook"]["tokens_per_second"], 0);
  // A machine with less memory keeps the tables on its disk.
  const Json small = Json::parse(
      baleen({"plan", "--device", "h200", "--host-memory", "192GB", "--model", model, "--json"}).out);
  EXPECT_EQ(small["engram_place"], "disk");
  EXPECT_TRUE(small["fits"]);
  // The preset is the same model.
  Json preset = Json::parse(baleen({"plan", "--device", "h200", "v41-flash", "--json"}).out);
  preset["model"] = report["model"];
  EXPECT_EQ(preset, report);
  const ProgramResult simulated =
      baleen({"simulate", model, "--num-devices", "4", "--tp", "4", "--decode", "--json"});
  EXPECT_EQ(simulated.status, 0) << simulated.err;
  EXPECT_EQ(Json::parse(simulated.out)["memory"][0]["engram_place"], "the host's memory");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(fs::path(kStories) / name, model / name);
  // Another tokenizer would make every hash of n-grams another one.
  const ProgramResult mixed = baleen({"inspect", model});
  EXPECT_NE(mixed.out.find("tokenizer.json: its 4096 tokens are "), std::string::npos) << mixed.out;
  for (const auto& command : commands(model)) {
    if (command[0] == "inspect" || command[0] == "plan" || command[0] == "simulate") continue;
    if (command[0] == "convert") continue;  // takes it, tokenizer and all (convert_v41_test.cc)
    const ProgramResult refused = baleen(command);
    EXPECT_NE(refused.status, 0) << command[0];
    EXPECT_NE(refused.err.find("its 4096 tokens are "), std::string::npos)
        << command[0] << ": " << refused.err;
  }
}

/// As NVIDIA publishes Flash: the layers' experts in NVFP4, those of the MTP block in MXFP4.
TEST_F(ReleaseCommands, Nvfp4HeadersAreEnoughToInspectAndToPlan) {
  ModelConfig config = preset_config("flash");
  config.expert_format = WeightFormat::kNvfp4;
  const StorageFormats formats{.experts = WeightFormat::kNvfp4,
                               .draft_experts = StoredFormat{.weight = WeightFormat::kFp4}};
  std::vector<TensorHeader> tensors = test::headers_of(config, formats);
  test::add_input_scales(tensors);
  test::write_header_only(folder_ / "model", tensors, config_text(config));
  test::write_encoder(folder_ / "model", test::kPreviewEncoder);
  const ProgramResult inspect = baleen({"inspect", folder_ / "model"});
  EXPECT_EQ(inspect.status, 0) << inspect.err;
  for (const char* part :
       {"  published as        V4-Flash with NVFP4 experts (a repack); config.json's sizes; ",
        "routed experts        NVFP4, E4M3 scales; layers.0.ffn.experts.0.w1: weight U8 [2048, 2048], "
        "weight_scale ",
        "draft head's experts  MXFP4, E8M0 scales; mtp.0.ffn.experts.0.w1: weight I8 [",
        "left unread           scales for activations in FP4 (*.input_scale), which here are FP8, 33,024 "
        "tensors",
        "  FP4 (packed in U8) ", "  FP4 (packed in I8) ", "  E4M3 scales ",
        "config and tensors    fit together"})
    EXPECT_NE(inspect.out.find(part), std::string::npos) << part << "\n" << inspect.out;
  const ProgramResult plan = baleen({"plan", "--device", "h200", "--model", folder_ / "model"});
  EXPECT_EQ(plan.status, 0) << plan.err;
  tensors = test::headers_of(preset_config("flash"), {});
  test::write_header_only(folder_ / "mxfp4", tensors, config_text(preset_config("flash")));
  const auto weights = [&](const fs::path& model) {
    const Json report = Json::parse(baleen({"plan", "--device", "h200", "--model", model, "--json"}).out);
    return report["weight_bytes"].get<double>() + report["host_expert_bytes"].get<double>();
  };
  // Group scales are a ninth of the experts' bytes instead of a seventeenth.
  EXPECT_GT(weights(folder_ / "model"), 1.04 * weights(folder_ / "mxfp4"));
  EXPECT_LT(weights(folder_ / "model"), 1.07 * weights(folder_ / "mxfp4"));
}

TEST_F(ReleaseCommands, Nvfp4RunsAndKeepsItsTextThroughConversion) {
  const auto run = [](const fs::path& model) {
    const ProgramResult result =
        baleen({"run", "--model", model, "--threads", "1", "--context", "256", "--temperature", "0",
                "--precision", "exact", "--max-tokens", "24", "Once upon a time"});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  const ProgramResult cast = baleen({"convert", kStories, folder_ / "nvfp4", "--experts", "nvfp4"});
  ASSERT_EQ(cast.status, 0) << cast.err;
  EXPECT_NE(cast.out.find("lossless: "), std::string::npos) << cast.out;
  EXPECT_EQ(run(folder_ / "nvfp4"), run(kStories));
  const ProgramResult back = baleen({"convert", folder_ / "nvfp4", folder_ / "fp4", "--experts", "fp4"});
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_NE(back.out.find("matrices are exact: all scales are powers of two"), std::string::npos) << back.out;
}

TEST_F(ReleaseCommands, InspectPrintsEvidence) {
  const ProgramResult text = baleen({"inspect", dspark()});
  EXPECT_EQ(text.status, 0) << text.err;
  for (const char* part :
       {"release               DeepSeek-V4; config.json, \"model_type\": \"deepseek_v4\"\n",
        "  published as        V4 of another geometry than Flash and Pro; config.json's sizes\n",
        "draft head            DSpark, 3 stages; tensor \"mtp.0.main_norm.weight\"; mtp.0 to mtp.2\n",
        "draft head's experts  MXFP4, E8M0 scales; mtp.0.ffn.experts.0.w1: weight I8 [",
        "  and dense matrices  FP8, E8M0 scales of 128 x 128; mtp.0.attn.wq_a: weight F8_E4M3 [",
        "prompt profile        preview; assumed: there is no encoding/encoding_dsv4.py\n",
        "routed experts        MXFP4, E8M0 scales; layers.0.ffn.experts.0.w1: weight I8 [",
        "dense matrices        FP8, E8M0 scales of 128 x 128; layers.0.attn.wq_a: weight F8_E4M3 [",
        "vision                no; no such tensor\n", "; 3 of the draft head\n", "fit together"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const ProgramResult json = baleen({"inspect", "--json", gptq()});
  EXPECT_EQ(json.status, 1);
  const Json report = Json::parse(json.out);
  EXPECT_EQ(report["kind"]["routed_experts"]["is"], "GPTQ");
  EXPECT_EQ(report["kind"]["draft_head"]["is"], "MTP, 1 block");
  EXPECT_TRUE(report["kind"]["why_not_runnable"].is_string());
}

}  // namespace
}  // namespace baleen
