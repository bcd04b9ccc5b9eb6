// `tokenizer train`, `data pack` and `data inspect` as a user runs them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::ProgramInput;
using test::ProgramResult;
using test::TemporaryFolder;

constexpr unsigned kSeconds = 240;  // a hang is endless

ProgramResult baleen(std::vector<std::string> arguments, ProgramInput input = {}) {
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  if (input.seconds == 0) input.seconds = kSeconds;
  return test::run_program(arguments, input);
}

void write(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Some JSON lines of text and one conversation.
fs::path small_corpus(const TemporaryFolder& folder) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines +=
        json{{"text", "The fox number " + std::to_string(i) + " ran and ran.\n\nIt was late."}}.dump() + "\n";
  lines += R"({"messages": [{"role": "user", "content": "Who ran?"}, )"
           R"({"role": "assistant", "content": "The fox."}]})";
  write(folder / "corpus.jsonl", lines + "\n");
  return folder / "corpus.jsonl";
}

TEST(DataCommands, FromTextToShards) {
  const TemporaryFolder folder;
  const std::string corpus = small_corpus(folder), model = folder / "model", data = folder / "data";
  const ProgramResult trained =
      baleen({"tokenizer", "train", corpus, "--vocab-size", "290", "--out", model, "--threads", "2"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_NE(trained.out.find("290 tokens"), std::string::npos) << trained.out;
  const ProgramResult tokens = baleen({"tokenize", "--model", model}, {.in = R"({"text": "The fox ran."})"});
  EXPECT_EQ(tokens.status, 0) << tokens.err;
  const ProgramResult packed =
      baleen({"data", "pack", corpus, "--tokenizer", model, "--out", data, "--held-out", "0.2"});
  ASSERT_EQ(packed.status, 0) << packed.err;
  const ProgramResult inspected = baleen({"data", "inspect", data, "--verify", "--json", "--samples", "100"});
  ASSERT_EQ(inspected.status, 0) << inspected.err;
  const json report = json::parse(inspected.out);
  EXPECT_EQ(report["train"]["documents"].get<int>() + report["held-out"]["documents"].get<int>(), 41);
  EXPECT_EQ(report["train"]["vocab_size"], 290);
  EXPECT_NE(inspected.out.find("<｜User｜>Who ran?<｜Assistant｜></think>The fox."), std::string::npos);
  const ProgramResult table = baleen({"data", "inspect", data});
  EXPECT_NE(table.out.find("bytes/token"), std::string::npos) << table.out;
}

/// Of conversations, as the encoder beside the tokenizer has them, or an option says.
TEST(DataCommands, EffortsAreThoseOfThePromptProfile) {
  const TemporaryFolder folder;
  write(folder / "corpus.jsonl",
        R"({"messages": [{"role": "user", "content": "Who ran?"}, {"role": "assistant", "content": "I."}], )"
        R"("thinking_mode": "thinking", "reasoning_effort": "low"})"
        "\n");
  const auto pack = [&](const std::string& name, const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"data", "pack", folder / "corpus.jsonl", "--out", folder / name};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return baleen(arguments);
  };
  const ProgramResult refused = pack("refused", {});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("reasoning_effort: expected high or max (prompt profile preview)"),
            std::string::npos)
      << refused.err;
  EXPECT_EQ(pack("asked", {"--prompt-profile", "official"}).status, 0);
  fs::create_directories(folder / "model/encoding");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    fs::copy_file(fs::path("models/stories") / name, folder / "model" / name);
  write(folder / "model/encoding/encoding_dsv4.py",
        "REASONING_EFFORT_PROMPTS = {\n  'low': '', 'high': 'a', 'max': 'b'\n}\n"
        "DEFAULT_REASONING_EFFORT = 'low'\n");
  EXPECT_EQ(pack("found", {"--tokenizer", folder / "model"}).status, 0);
  EXPECT_EQ(pack("found_by_file", {"--tokenizer", folder / "model/tokenizer.json"}).status, 0);
}

TEST(DataCommands, ATrainedTokenizerDoesNotDependOnThreads) {
  const TemporaryFolder folder;
  const std::string corpus = small_corpus(folder);
  for (const std::string threads : {"1", "3"}) {
    ASSERT_EQ(baleen({"tokenizer", "train", corpus, "--vocab-size", "350", "--out", folder / threads,
                      "--threads", threads, "--special-tokens", "all"})
                  .status,
              0);
  }
  EXPECT_EQ(read(folder / "1" / "tokenizer.json"), read(folder / "3" / "tokenizer.json"));
  EXPECT_EQ(baleen({"tokenizer", "train", corpus, "--vocab-size", "350", "--out", folder / "1"}).status, 1);
}

TEST(DataCommands, BadInputIsNamedAndNothingIsWritten) {
  const TemporaryFolder folder;
  write(folder / "empty.txt", "");
  write(folder / "byte.txt", "a");
  write(folder / "binary.txt", std::string_view("\x7F"
                                                "ELF\0\1",
                                                6));
  write(folder / "latin.txt", "caf\xE9 is not UTF-8");
  write(folder / "bad.jsonl", "{\"text\": \"one\"}\n{\"text\": \n");
  write(folder / "missing.jsonl", "{\"text\": \"one\"}\n\n{\"story\": \"two\"}\n");
  const std::vector<std::pair<std::string, std::string>> cases{
      {"empty.txt", "holds nothing"},
      {"binary.txt", "holds a NUL byte"},
      {"latin.txt", "UTF-8"},
      {"bad.jsonl", "bad.jsonl, line 2: not a line of JSON"},
      {"missing.jsonl", "missing.jsonl, line 3: no \"text\""},
      {"absent.txt", "no such file"}};
  for (const auto& [name, expected] : cases) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"data", "pack", folder / name, "--out", folder / "out"},
          std::vector<std::string>{"tokenizer", "train", folder / name, "--out", folder / "out",
                                   "--vocab-size", "300"}}) {
      const ProgramResult result = baleen(command);
      EXPECT_EQ(result.status, 1) << name;
      EXPECT_NE(result.err.find(expected), std::string::npos) << name << ": " << result.err;
      EXPECT_FALSE(fs::exists(folder / "out")) << name;
    }
  }
  EXPECT_EQ(baleen({"data", "pack", folder / "byte.txt", "--out", folder / "out"}).status, 0);
  EXPECT_EQ(
      baleen({"tokenizer", "train", folder / "byte.txt", "--out", folder / "t", "--vocab-size", "3"}).status,
      2);
  EXPECT_EQ(baleen({"data"}).status, 2);
  EXPECT_EQ(baleen({"tokenizer"}).status, 2);
  EXPECT_EQ(baleen({"data", "inspect", folder.path()}).status, 1);
}

TEST(DataCommands, ALineOfAGigabyteTakesBoundedMemory) {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "long.jsonl.zst", std::ios::binary);
    const std::string block(1 << 20, 'a');
    ZSTD_CCtx* context = ZSTD_createCCtx();
    std::string out(ZSTD_CStreamOutSize(), '\0');
    for (int i = 0; i < 1024; ++i) {
      ZSTD_inBuffer input{block.data(), block.size(), 0};
      const ZSTD_EndDirective mode = i == 1023 ? ZSTD_e_end : ZSTD_e_continue;
      for (std::size_t left = 1; left != 0 && (mode == ZSTD_e_end || input.pos < input.size);) {
        ZSTD_outBuffer output{out.data(), out.size(), 0};
        left = ZSTD_compressStream2(context, &output, &input, mode);
        file.write(out.data(), static_cast<std::streamsize>(output.pos));
      }
    }
    ZSTD_freeCCtx(context);
  }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"data", "pack", folder / "long.jsonl.zst", "--out", folder / "out"},
        std::vector<std::string>{"tokenizer", "train", folder / "long.jsonl.zst", "--out", folder / "out",
                                 "--vocab-size", "300"}}) {
    const ProgramResult result = baleen(command, {.address_bytes = std::int64_t{3} << 30});
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find("line 1: more than 268,435,456 bytes"), std::string::npos) << result.err;
  }
}

TEST(DataCommands, AKilledPackLeavesNothingAndTheNextOneCleansUp) {
  const TemporaryFolder folder;
  const fs::path pipe = folder / "pipe.jsonl", out = folder / "packed";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  // Held open for reading too, so that the pack waits for more until it is killed.
  const int held = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(held, 0);
  const std::string line = "{\"text\": \"one\"}\n";
  ASSERT_EQ(::write(held, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  const ProgramResult killed = baleen({"data", "pack", pipe, "--out", out}, {.seconds = 2});
  ::close(held);
  EXPECT_GT(killed.status, 128);
  EXPECT_FALSE(fs::exists(out));
  ASSERT_EQ(baleen({"data", "pack", small_corpus(folder), "--out", out}).status, 0);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    EXPECT_EQ(entry.path().filename().string().find(".partial"), std::string::npos) << entry.path();
}

TEST(DataCommands, AFullDiskIsSaid) {
  const TemporaryFolder folder;
  const ProgramResult result =
      baleen({"data", "pack", small_corpus(folder), "--out", folder / "out"}, {.largest_file_bytes = 1000});
  EXPECT_EQ(result.status, 1);
  EXPECT_FALSE(fs::exists(folder / "out"));
}

}  // namespace
}  // namespace baleen
