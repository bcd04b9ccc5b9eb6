// The built program from outside: exit status and sentence for everything that can be wrong with what it is
// given, and that nothing is left half-written.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::ProgramInput;
using test::ProgramResult;

ProgramResult baleen(std::vector<std::string> arguments, const ProgramInput& input = {}) {
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  return test::run_program(arguments, input);
}

/// Status 1 and a sentence that names the thing.
void expect_failure(const ProgramResult& result, const std::string& part) {
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_GT(result.err.size(), 20u);
  EXPECT_NE(result.err.find(part), std::string::npos) << "no \"" << part << "\" in: " << result.err;
  EXPECT_EQ(result.err.find("unexpected"), std::string::npos) << result.err;
}

void expect_usage_error(const ProgramResult& result, const std::string& part) {
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_NE(result.err.find(part), std::string::npos) << "no \"" << part << "\" in: " << result.err;
}

class Commands : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    models_ = new test::TemporaryFolder();
    ASSERT_EQ(
        baleen({"init", *models_ / "sharded", "--shard-size", "1MB", "--tokenizer", "models/stories"}).status,
        0);
  }
  static void TearDownTestSuite() { delete models_; }

  /// A copy of a random checkpoint in several shards, to be damaged.
  [[nodiscard]] fs::path sharded() const {
    fs::copy(*models_ / "sharded", folder_ / "model");
    return folder_ / "model";
  }
  fs::path write(const std::string& name, const std::string& text) const {
    AtomicFileWriter writer(folder_ / name);
    writer.write(text);
    writer.commit();
    return folder_ / name;
  }
  /// `baleen logits` into a folder of its own, which must be empty afterwards unless it succeeded.
  [[nodiscard]] ProgramResult logits(const fs::path& model, const std::string& tokens,
                                     std::vector<std::string> more = {}) const {
    fs::create_directories(folder_ / "out");
    std::vector<std::string> arguments{"logits",
                                       "--model",
                                       model,
                                       "--tokens",
                                       write("ids", tokens),
                                       "--out",
                                       folder_ / "out" / "logits.safetensors"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = baleen(arguments);
    EXPECT_EQ(fs::is_empty(folder_ / "out"), result.status != 0);
    return result;
  }

  const test::TemporaryFolder folder_;
  static test::TemporaryFolder* models_;
};

test::TemporaryFolder* Commands::models_ = nullptr;

const std::vector<std::string> kCommands{"run",      "chat",        "bench",      "inspect",
                                         "init",     "convert",     "perplexity", "logits",
                                         "tokenize", "encode-chat", "parse-chat", "calibrate"};

TEST_F(Commands, HelpOfEveryCommand) {
  for (const std::string& command : kCommands) {
    const ProgramResult result = baleen({command, "--help"});
    EXPECT_EQ(result.status, 0) << command;
    EXPECT_NE(result.out.find("Usage: "), std::string::npos) << result.out;
    EXPECT_EQ(result.err, "");
  }
  const ProgramResult all = baleen({"--help"});
  EXPECT_EQ(all.status, 0);
  for (const std::string& command : kCommands)
    EXPECT_NE(all.out.find("  " + command), std::string::npos) << command;
  EXPECT_EQ(baleen({"--version"}).out.substr(0, 7), "baleen ");
}

TEST_F(Commands, WrongUsageIsStatus2) {
  const std::vector<std::string> wrong[] = {
      {},
      {"no-such-command"},
      {"--no-such-flag"},
      {"run"},
      {"run", "text", "--file", "also.txt"},
      {"run", "text", "--system", "needs --chat"},
      {"run", "text", "--precision", "fp3"},
      {"run", "text", "--chunk", "0"},
      {"run", "text", "--max-tokens", "-1"},
      {"run", "text", "--logprobs", "21"},
      {"run", "text", "--temperature", "warm"},
      {"run", "text", "--temperature", "-1"},
      {"run", "text", "--top-p", "0"},
      {"logits", "--tokens", "ids"},
      {"perplexity"},
      {"init"},
      {"init", "folder", "--shard-size", "0"},
      {"convert", "in"},
      {"convert", "in", "out", "--experts", "int4"},
      {"tokenize", "--no-such-flag"},
      {"encode-chat", "extra"},
      {"calibrate", "--threads", "0"},
  };
  for (const std::vector<std::string>& arguments : wrong) {
    const ProgramResult result = baleen(arguments);
    EXPECT_EQ(result.status, 2) << (arguments.empty() ? "" : arguments.back());
    EXPECT_GT((result.err + result.out).size(), 20u);
  }
}

TEST_F(Commands, WrongUsageNamesTheCommandAndWhoElseHasTheOption) {
  const ProgramResult plan = baleen({"plan", "flash", "--tp", "2"});
  expect_usage_error(plan, "baleen: \"--tp\" is not an option of plan, but of run, chat, ");
  expect_usage_error(plan, "`baleen plan --help` lists what it takes");
  expect_usage_error(baleen({"simulate", "search", "--num-devices", "0"}), "`baleen simulate search --help`");
  expect_usage_error(baleen({}), "`baleen --help` lists the commands");
}

TEST_F(Commands, LogitsOfTokens) {
  const fs::path model = sharded();
  EXPECT_EQ(logits(model, "1 2,3\n", {"--mtp", "--precision", "exact"}).status, 0);
  const SafetensorsFile file(folder_ / "out" / "logits.safetensors");
  EXPECT_EQ(file.find("logits")->type_text(), "F32 [3, 512]");
  EXPECT_EQ(file.find("mtp_logits")->type_text(), "F32 [2, 512]");
  // One token has no successor for the MTP block to start from.
  EXPECT_EQ(logits(model, "1", {"--mtp"}).status, 0);
  const SafetensorsFile single(folder_ / "out" / "logits.safetensors");
  EXPECT_EQ(single.find("mtp_logits")->type_text(), "F32 [0, 512]");
}

TEST_F(Commands, TokensThatAnotherCommandWrites) {
  const std::string out = folder_ / "logits.safetensors";
  ASSERT_EQ(::mkfifo((folder_ / "ids").c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(folder_ / "ids") << "1 2 3\n"; });
  const ProgramResult result =
      baleen({"logits", "--model", sharded(), "--tokens", folder_ / "ids", "--out", out});
  writer.join();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(fs::exists(out));
}

TEST_F(Commands, FilesBesideTheWeightsThatAreMissingOrWrong) {
  const fs::path model = sharded();
  fs::remove(model / "generation_config.json");
  std::ofstream(model / "generation_config.json") << R"({"temperature": "hot"})";
  expect_failure(baleen({"run", "--model", model, "x", "-n", "1"}),
                 "\"temperature\": expected a number, found \"hot\"");
  fs::remove(model / "tokenizer.json");
  expect_failure(baleen({"run", "--model", model, "x", "-n", "1"}),
                 "tokenizer.json: no such file; expected the checkpoint's own");
}

TEST_F(Commands, DamagedShards) {
  const fs::path model = sharded();
  const auto index = nlohmann::json::parse(read_text_file(model / kIndexFileName));
  const std::string name = index["weight_map"]["norm.weight"];
  const fs::path shard = model / name;
  const std::string bytes = read_text_file(shard);

  fs::resize_file(shard, bytes.size() / 2);
  expect_failure(logits(model, "1"), name);
  expect_failure(baleen({"inspect", model}), name);
  fs::resize_file(shard, 3);
  expect_failure(logits(model, "1"), name);
  fs::remove(shard);
  expect_failure(logits(model, "1"), name);
  fs::create_directory(shard);
  expect_failure(logits(model, "1"), name);
}

TEST_F(Commands, AnIndexThatNamesWhatIsNotThere) {
  const fs::path model = sharded();
  auto index = nlohmann::json::parse(read_text_file(model / kIndexFileName));
  const auto write_index = [&](const std::string& text) {
    write("model/" + std::string(kIndexFileName), text);
  };
  index["weight_map"]["norm.weight"] = "model-00009.safetensors";
  write_index(index.dump());
  expect_failure(logits(model, "1"), "model-00009.safetensors");
  index["weight_map"]["norm.weight"] = "../../etc/passwd";
  write_index(index.dump());
  expect_failure(logits(model, "1"), "../../etc/passwd");
  write_index("{\"weight_map\": ");
  expect_failure(logits(model, "1"), std::string(kIndexFileName));
}

TEST_F(Commands, ModelsThatAreNone) {
  expect_failure(logits(folder_ / "absent", "1"), "absent");
  expect_failure(logits(folder_.path(), "1"), "config.json");
  const fs::path model = sharded();
  write("model/config.json", "{\"model_type\": \"gpt2\"}");
  expect_failure(logits(model, "1"), "gpt2");
  expect_failure(baleen({"run", "--model", folder_ / "absent", "text"}), "absent: no such folder");
  expect_failure(baleen({"chat", "--model", folder_ / "absent"}), "absent: no such folder");
  expect_failure(baleen({"bench", "--model", folder_ / "absent"}), "config.json");
}

TEST_F(Commands, TokensThatAreNone) {
  const fs::path model = sharded();
  expect_failure(logits(model, "1 2 512"), "token id 512 at position 2: the vocabulary has ids 0 to 511");
  expect_failure(logits(model, "1 -1"), "token id -1");
  expect_failure(logits(model, "1 two"), "\"two\" at byte 2");
  expect_failure(logits(model, ""), "no token ids");
  expect_failure(baleen({"logits", "--model", model, "--tokens", folder_ / "absent", "--out", folder_ / "x"}),
                 "absent");
  expect_failure(baleen({"logits", "--model", model, "--tokens", folder_.path(), "--out", folder_ / "x"}),
                 "neither a regular file nor a pipe");
}

TEST_F(Commands, PromptsLongerThanTheContext) {
  std::string text;
  for (int i = 0; i < 600; ++i) text += "the fox ";
  const fs::path file = write("long.txt", text);
  const ProgramResult result = baleen({"run", "--file", file, "--context", "256"});
  expect_failure(result, "the context holds 256; shorten the prompt or raise --context");
  EXPECT_EQ(result.out, "");
  expect_failure(baleen({"run", "text", "--context", "2000000"}),
                 "--context 2,000,000: expected at most 1,048,576");
}

TEST_F(Commands, TextThatIsNotUtf8) {
  const fs::path file = write("text.txt", "The fox \xC3\x28 ran.");
  expect_failure(baleen({"run", "--file", file}), "UTF-8");
  expect_failure(baleen({"perplexity", "--text", file}), "UTF-8");
  expect_failure(baleen({"run", "the \xFF"}), "UTF-8");
  expect_failure(baleen({"tokenize"}, {.in = "{\"text\": \"\xFF\"}\n"}), "line 1");
}

TEST_F(Commands, TextThatCannotBeRead) {
  expect_failure(baleen({"run", "--file", folder_ / "absent.txt"}), "absent.txt");
  expect_failure(baleen({"perplexity", "--text", folder_.path()}), "not a regular file");
  expect_failure(baleen({"perplexity", "--text", write("empty.txt", "")}), "nothing to predict");
}

TEST_F(Commands, SettingsThatMakeNoSense) {
  expect_failure(baleen({"run", "text", "--isa", "MMX"}), "MMX");
  expect_failure(baleen({"init", folder_ / "new", "--preset", "huge"}), "huge");
  expect_failure(baleen({"init", folder_ / "new", "--preset", "tiny-v4"}), "did you mean tiny-v41?");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(Commands, PlacesThatCannotBeWritten) {
  const fs::path model = sharded(), ids = write("ids", "1 2 3");
  const auto logits_to = [&](const fs::path& out) {
    return baleen({"logits", "--model", model, "--tokens", ids, "--out", out});
  };
  expect_failure(logits_to(folder_ / "absent" / "x"), "does the folder exist");
  expect_failure(logits_to(ids / "x"), "cannot write here");
  expect_failure(logits_to(folder_.path()), "is a folder");
  expect_failure(logits_to("/proc/x"), "/proc/x");
  if (fs::is_character_file("/dev/full")) {
    expect_failure(logits_to("/dev/full"), "No space left");
    EXPECT_TRUE(fs::is_character_file("/dev/full"));
  }
  expect_failure(baleen({"init", ids}), "is a file");
  expect_failure(baleen({"init", ids / "x"}), "cannot create the folder");
  expect_failure(baleen({"init", model}), "not empty");
  expect_failure(baleen({"convert", model, model}), "the same folder");
  expect_failure(baleen({"convert", model, folder_.path()}), "one is inside the other");
  expect_failure(baleen({"convert", *models_ / "sharded", model}), "not empty");
}

TEST_F(Commands, TheBundledModelIsFoundFromAnyFolder) {
  fs::create_directories(folder_ / "models" / "stories");  // not the one that is meant
  const ProgramInput here{.in = "{\"text\": \"Once upon\"}\n", .working_folder = folder_.path()};
  const ProgramResult result = baleen({"tokenize"}, here);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(baleen({"inspect"}, here).status, 0);
  EXPECT_EQ(baleen({"simulate", "validate", "--json"}, here).status, 0);
}

TEST_F(Commands, AnInstalledProgramLooksUnderItsPrefix) {
  fs::create_directories(folder_ / "bin");
  fs::copy_file(test::kBaleenProgram, folder_ / "bin" / "baleen");
  const auto installed = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), folder_ / "bin" / "baleen");
    return test::run_program(arguments, {.in = "{\"text\": \"a\"}\n", .working_folder = folder_.path()});
  };
  const ProgramResult absent = installed({"inspect"});
  EXPECT_NE(absent.status, 0);
  EXPECT_NE((absent.out + absent.err).find(folder_ / "share/baleen/models/stories"), std::string::npos)
      << absent.err;
  // A known geometry needs no model.
  const ProgramResult bench =
      installed({"bench", "--preset", "tiny-flash", "--prompt", "8", "--decode", "2"});
  EXPECT_EQ(bench.status, 0) << bench.err;
  fs::create_directories(folder_ / "share/baleen/models");
  fs::copy(fs::absolute("models/stories"), folder_ / "share/baleen/models/stories",
           fs::copy_options::recursive);
  EXPECT_EQ(installed({"tokenize"}).status, 0);
}

/// Before anything is measured.
TEST_F(Commands, CalibrationsThatCannotBe) {
  expect_failure(baleen({"calibrate", "--device", "tpu"}), "tpu");
  expect_failure(baleen({"calibrate", "--name", ""}), "--name");
  expect_failure(baleen({"calibrate", "--output", folder_ / "profile.txt"}), ".json");
  expect_failure(baleen({"calibrate", "--output", folder_ / "absent" / "local.json"}),
                 "does the folder exist");
}

TEST_F(Commands, AFullDiskLeavesNothingBehind) {
  const fs::path model = sharded();
  const ProgramInput full{.largest_file_bytes = 600'000};
  expect_failure(baleen({"init", folder_ / "new"}, full), "nothing was left behind");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  expect_failure(baleen({"convert", model, folder_ / "new"}, full), "nothing was left behind");
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  std::string ids;
  for (int i = 0; i < 400; ++i) ids += "7 ";
  fs::create_directory(folder_ / "out");
  const fs::path out = folder_ / "out" / "logits.safetensors";
  expect_failure(baleen({"logits", "--model", model, "--tokens", write("ids", ids), "--out", out}, full),
                 "nothing was left behind");
  EXPECT_TRUE(fs::is_empty(folder_ / "out"));
}

TEST_F(Commands, AFullDiskBehindStandardOutput) {
  if (!fs::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const fs::path text = write("text.txt", "The fox ran.");
  const std::string request =
      R"({"messages": [{"role": "user", "content": "Hello"}], "thinking_mode": "chat"})"
      "\n";
  const auto expect_refusal = [](std::vector<std::string> arguments, const std::string& in = "") {
    const ProgramResult result = baleen(std::move(arguments), {.in = in, .out = "/dev/full"});
    EXPECT_EQ(result.status, 1) << result.err;
    EXPECT_GT(result.err.size(), 20u);
  };
  expect_refusal({"inspect"});
  expect_refusal({"tokenize"}, "{\"ids\": [0]}\n");
  expect_refusal({"encode-chat"}, request);
  expect_refusal({"parse-chat"}, "{\"text\": \"Hello\", \"thinking_mode\": \"chat\"}\n");
  expect_refusal({"perplexity", "--text", text});
  expect_refusal({"run", "Once", "-n", "3"});
}

TEST_F(Commands, LinesThatAreNoRequests) {
  expect_failure(baleen({"tokenize"}, {.in = "{\"ids\": [0]}\nhello\n"}), "line 2");
  // The chat commands answer every line: a malformed one is their caller's business, not a failure of theirs.
  const ProgramResult chat = baleen({"encode-chat"}, {.in = "hello\n{}\n"});
  EXPECT_EQ(chat.status, 0);
  EXPECT_EQ(std::ranges::count(chat.out, '\n'), 2);
  EXPECT_EQ(chat.out.find("{\"error\""), 0u) << chat.out;
}

TEST_F(Commands, EveryDefaultModelIsFoundFromAnyFolder) {
  const ProgramInput elsewhere{.in = "{\"ids\": [0]}\n", .working_folder = folder_.path()};
  EXPECT_EQ(baleen({"inspect"}, elsewhere).status, 0);
  EXPECT_EQ(baleen({"tokenize"}, elsewhere).status, 0);
  EXPECT_EQ(baleen({"run", "Once", "-n", "2"}, elsewhere).status, 0);
}

TEST_F(Commands, AStoryAndItsFigures) {
  const std::vector<std::string> arguments{"run", "Once upon a time", "-n", "12", "--seed", "4"};
  const ProgramResult first = baleen(arguments), second = baleen(arguments);
  EXPECT_EQ(first.status, 0);
  EXPECT_GT(first.out.size(), 20u);
  EXPECT_EQ(first.out, second.out);
  EXPECT_NE(first.err.find("seed 4"), std::string::npos) << first.err;
  const std::string both =
      test::run_program({"/bin/sh", "-c", "\"$0\" run Once -n 2 2>&1", test::kBaleenProgram}).out;
  EXPECT_NE(both.find("\n["), std::string::npos) << "figures have a line of their own: " << both;
  EXPECT_EQ(baleen({"run", "Once upon a time", "-n", "2", "--quiet"}).err, "");

  const ProgramResult chat = baleen({"chat", "-n", "5"}, {.in = "/help\n/stats\nHello\n/quit\nnever read\n"});
  EXPECT_EQ(chat.status, 0) << chat.err;
  EXPECT_NE(chat.out.find("/save FILE"), std::string::npos) << chat.out;

  const ProgramResult figures =
      baleen({"perplexity", "--json", "--text", write("text.txt", "The old fox ran home.")});
  EXPECT_EQ(figures.status, 0) << figures.err;
  const auto json = nlohmann::json::parse(figures.out);
  EXPECT_EQ(json["bytes"], 21);
  EXPECT_GT(json["nats_per_token"], 0.0);
}

TEST_F(Commands, ThinkingHasABudgetAndLoopsEnd) {
  const auto run = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"run", "Tell me a story about an owl.", "--temperature", "0"});
    return baleen(options);
  };
  const std::vector<std::string> thinks = {"--chat", "--think", "high", "-n", "300"};
  const auto thinking = [&](std::vector<std::string> more) {
    more.insert(more.begin(), thinks.begin(), thinks.end());
    return run(more);
  };
  const ProgramResult free = thinking({}), bounded = thinking({"--think-budget", "4"});
  EXPECT_EQ(bounded.status, 0) << bounded.err;
  EXPECT_NE(bounded.err.find("; its thinking was ended at the budget;"), std::string::npos) << bounded.err;
  EXPECT_EQ(free.err.find("thinking was ended"), std::string::npos) << free.err;
  EXPECT_LT(bounded.out.find("\n---\n"), free.out.find("\n---\n")) << bounded.out;
  expect_usage_error(run({"--chat", "--think-budget", "4"}), "--think-budget requires --think");

  const std::vector<std::string> loops = {"-n", "300", "--repetition-penalty", "0.05"};
  const auto looping = [&](std::vector<std::string> more) {
    more.insert(more.begin(), loops.begin(), loops.end());
    return run(more);
  };
  EXPECT_NE(looping({"--loop-tokens", "60"}).err.find("; looped;"), std::string::npos);
  for (const char* off : {"0", "2048"})
    EXPECT_NE(looping({"--loop-tokens", off}).err.find("; token limit;"), std::string::npos) << off;
  // A penalty strong enough makes every repetition end.
  const ProgramResult dry =
      looping({"--loop-tokens", "60", "--dry-multiplier", "100", "--dry-sequence-breaker", "none"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_EQ(dry.err.find("; looped;"), std::string::npos) << dry.out;
}

TEST_F(Commands, PlansForMachinesThatAreNotHere) {
  const ProgramResult flash = baleen({"plan", "--device", "h200", "--preset", "flash"});
  if (flash.err.find("baleen_sm90.so") != std::string::npos) GTEST_SKIP() << flash.err;
  EXPECT_EQ(flash.status, 0) << flash.err;
  for (const char* part :
       {"3.51 KB of cache a position", "fits in", "of 11008 routed experts", "fetched over PCIe"}) {
    EXPECT_NE(flash.out.find(part), std::string::npos) << part << " in " << flash.out;
  }
  const ProgramResult alone =
      baleen({"plan", "--device", "h200", "--preset", "flash", "--host-experts-bytes", "1MB"});
  for (const char* part : {"does not fit", "--host-experts-bytes allows", "39 of 43 layers would fit"}) {
    EXPECT_NE(alone.out.find(part), std::string::npos) << part << " in " << alone.out;
  }
  const ProgramResult part = baleen({"plan", "--device", "h200", "--preset", "flash", "--layers", "36"});
  EXPECT_NE(part.out.find("every position the model has would fit"), std::string::npos) << part.out;
  const ProgramResult bundled = baleen({"plan", "--device", "h100", "--model", "models/stories", "--json"});
  EXPECT_NE(bundled.out.find("\"fits\":true"), std::string::npos) << bundled.out << bundled.err;
}

TEST_F(Commands, PlansSayWhatACardWillDo) {
  const auto plan = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "flash", "--device", "rtx-4090", "--context", "32768"});
    return baleen(more);
  };
  const ProgramResult small = plan({"--host-memory", "32GB", "--disk-gbps", "5", "--explain"});
  ASSERT_EQ(small.status, 0) << small.err;
  for (const char* part :
       {"data sheet, not measured", "on disk", "one stream", "8 streams", "a prompt", "first start",
        "--host-experts-bytes 26000000000", "what would help one stream most",
        "GB of host memory instead of 32", "a second device like it"})
    EXPECT_NE(small.out.find(part), std::string::npos) << part << " in " << small.out;

  const auto speed = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = more;
    words.emplace_back("--json");
    const ProgramResult result = plan(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return nlohmann::json::parse(result.out)["outlook"]["tokens_per_second"].get<double>();
  };
  const double computed = speed({}), fetched = speed({"--host-experts", "fetch"});
  EXPECT_GT(computed, fetched);
  EXPECT_GT(fetched, speed({"--host-experts", "fetch", "--pcie", "3x16"}));
  EXPECT_NEAR(speed({"--host-experts", "fetch", "--pcie", "5x16"}), fetched, 1e-9) << "the card is of PCIe 4";
  EXPECT_GT(speed({"--host-read-gbps", "200"}), computed);
  EXPECT_GT(speed({"--host-link-gbps", "50"}), computed);

  expect_usage_error(plan({"--pcie", "4"}), "4x16");
  expect_failure(plan({"--host-memory", "4GB"}), "--host-memory");
  expect_failure(baleen({"plan", "flash", "--device", "gb10", "--pcie", "4x16"}), "gb10");
  const ProgramResult several =
      baleen({"plan", "flash", "--device", "rtx-4090,rtx-3090", "--context", "32768"});
  ASSERT_EQ(several.status, 0) << several.err;
  for (const char* part : {"--pp 2 --stage-layers ", "--messages host-memory", "one stream"})
    EXPECT_NE(several.out.find(part), std::string::npos) << part << " in " << several.out;
}

TEST_F(Commands, BenchNamesTheLimitsThatItMeasured) {
  const ProgramResult result = baleen(
      {"bench", "--preset", "tiny-flash", "--device", "cpu", "--prompt", "4", "--decode", "1", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto run = nlohmann::json::parse(result.out);
  EXPECT_EQ(run.value("memory_rate", ""), "read");
  EXPECT_EQ(run.value("arithmetic_peak", ""), "FMA");
  const double memory = run.value("memory_bytes_per_second", 0.0);
  const double peak = run.value("peak_flops_per_second", 0.0);
  const auto& all = run["phases"][0]["all"];
  EXPECT_NEAR(all.value("share_of_memory_rate", 0.0), 1e9 * all["gb_per_second"].get<double>() / memory,
              1e-9);
  EXPECT_NEAR(all.value("share_of_arithmetic_peak", 0.0), 1e9 * all["gflop_per_second"].get<double>() / peak,
              1e-9);
}

TEST_F(Commands, KernelsAreListedAndForced) {
  const std::vector<std::string> small{"bench", "--device", "cpu", "--prompt", "4", "--decode", "1"};
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> all = small;
    all.insert(all.end(), more.begin(), more.end());
    return baleen(all);
  };
  const ProgramResult chosen = with({"--kernels", "--json"});
  ASSERT_EQ(chosen.status, 0) << chosen.err;
  const auto variant_of = [](const ProgramResult& result, const std::string& operation) {
    const auto listing = nlohmann::json::parse(result.out);
    for (const auto& row : listing["kernels"]) {
      if (row["operation"] == operation && row["chosen"]) return row["variant"].get<std::string>();
    }
    return std::string("none");
  };
  EXPECT_EQ(variant_of(chosen, "linear"), "simd");
  // What ran was timed, and nothing else.
  for (const auto& row : nlohmann::json::parse(chosen.out)["kernels"])
    EXPECT_EQ(row.contains("seconds_measured"), row["chosen"].get<bool>()) << row;
  const ProgramResult table = with({"--kernels"});
  for (const char* part : {"at least us", "predicted", "measured", "linear: 4 rows", "simd", "chosen"})
    EXPECT_NE(table.out.find(part), std::string::npos) << part << " in " << table.out;
  const ProgramResult forced = with({"--kernels", "--json", "--kernel", "linear=reference"});
  ASSERT_EQ(forced.status, 0) << forced.err;
  EXPECT_EQ(variant_of(forced, "linear"), "reference");
  EXPECT_EQ(variant_of(forced, "rms_norm"), "simd");
  expect_failure(with({"--kernel", "linear=fast"}), "simd, int8, training, training_bf16, reference");
  expect_failure(with({"--kernel", "turn=simd"}), "there is no such operation");
}

/// More requests than clients, through the scheduler; what is for phases is refused.
TEST_F(Commands, ClientsOfABenchmark) {
  const ProgramResult bench = baleen({"bench", "--preset", "tiny-flash", "--device", "cpu", "--clients", "2",
                                      "--requests", "5", "--prompt", "30", "--decode", "4", "--json"});
  EXPECT_EQ(bench.status, 0) << bench.err;
  EXPECT_NE(bench.out.find("\"requests\":5,"), std::string::npos) << bench.out;
  EXPECT_NE(bench.out.find("\"preemptions\":0"), std::string::npos) << bench.out;
  expect_failure(baleen({"bench", "--clients", "2", "--prompt", "0"}), "--prompt and --decode of 1 or more");
  expect_failure(baleen({"bench", "--clients", "2", "--at", "9"}), "--at and --kernels are for phases");
  expect_failure(baleen({"bench", "--clients", "2", "--kernels"}), "--at and --kernels are for phases");
  expect_failure(baleen({"bench", "--requests", "2"}), "--requests is for --clients");
  for (const char* of_phases : {"--sequences", "--warm-up"})
    expect_usage_error(baleen({"bench", "--clients", "2", of_phases, "3"}), of_phases);
}

/// Real steps with drafts, of which as many are right as is wanted, on one rank and on several.
TEST_F(Commands, ABenchmarkWithDrafts) {
  const std::vector<std::string> drafts{"bench",       "--preset", "tiny-flash", "--device", "cpu",
                                        "--speculate", "2",        "--json",     "--seed",   "4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), drafts.begin(), drafts.end());
    return baleen(more);
  };
  const std::vector<std::vector<std::string>> plans{{}, {"--tp", "2"}, {"--pp", "2"}};
  for (const std::vector<std::string>& plan : plans) {
    std::vector<std::string> options{"--tokens-a-step", "3", "--prompt", "0", "--decode", "5",
                                     "--sequences",     "2", "--at",     "20"};
    options.insert(options.end(), plan.begin(), plan.end());
    const ProgramResult bench = with(options);
    ASSERT_EQ(bench.status, 0) << bench.err;
    const auto phase = nlohmann::json::parse(bench.out)["phases"][0];
    EXPECT_EQ(phase["tokens"], 2 * 5 * 3) << "all drafts are right";
    EXPECT_EQ(phase["drafted_tokens"], 2 * 5 * 2);
    EXPECT_EQ(phase["drafts_by_depth"][1]["drafted"], 2 * 5);
    EXPECT_EQ(phase["drafts_by_depth"][1]["accepted"], 2 * 5);
  }
  const ProgramResult served =
      with({"--tokens-a-step", "1", "--clients", "2", "--requests", "4", "--prompt", "9", "--decode", "7"});
  ASSERT_EQ(served.status, 0) << served.err;
  const auto figures = nlohmann::json::parse(served.out);
  EXPECT_GT(figures["drafted_tokens"], 0);
  EXPECT_EQ(figures["accepted_tokens"], 0);
  const ProgramResult first = with({"--acceptance", "1,0", "--clients", "2", "--requests", "4", "--prompt",
                                    "9", "--decode", "40", "--draft-schedule", "off"});
  ASSERT_EQ(first.status, 0) << first.err;
  const auto by_depth = nlohmann::json::parse(first.out)["drafts_by_depth"];
  EXPECT_GT(by_depth[0]["drafted"], 0);
  EXPECT_EQ(by_depth[0]["accepted"], by_depth[0]["drafted"]);
  EXPECT_EQ(by_depth[1]["accepted"], 0);
  expect_usage_error(baleen({"bench", "--preset", "tiny-flash", "--device", "cpu", "--speculate", "2"}),
                     "--acceptance or --tokens-a-step says how many are right");
  expect_failure(with({"--tokens-a-step", "2", "--draft-threshold", "0.3"}),
                 "--draft-threshold 0.3: the MTP block does not say how sure it is of a draft");
  expect_failure(with({"--tokens-a-step", "3.5"}), "with 2 drafts 1 to 3 are possible");
  expect_usage_error(baleen({"bench", "--tokens-a-step", "2"}), "--speculate");
}

TEST_F(Commands, DevicesThatAreNone) {
  expect_failure(baleen({"run", "x", "--device", "gpu"}), "there are cpu, cuda, cuda:N");
  expect_failure(baleen({"bench", "--device", "cuda:77"}), "--device cuda:77");
  expect_failure(baleen({"plan", "--device", "h300", "--preset", "flash"}), "h200");
  expect_failure(baleen({"plan", "--device", "rtx-409", "--preset", "flash"}), "did you mean rtx-4090?");
  expect_failure(baleen({"simulate", "flash", "--device", "a100"}), "did you mean a100-40gb?");
  expect_failure(baleen({"plan", "--preset", "nope"}), "known geometry");
  expect_failure(baleen({"plan", "flsh"}), "did you mean flash?");
  expect_failure(baleen({"plan", "flash", "--device", "h200", "--host-memory", "1GB"}),
                 "--host-memory: 1.0 GB; expected more than the 6 GB");
}

}  // namespace
}  // namespace baleen
