// The command line's door: what each kind of option takes, and the sentences for all else.
#include "app/options.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/nearest_name.h"

namespace baleen {
namespace {

struct Values {
  std::int64_t chunk = 512;
  int threads = 0;
  std::optional<std::int64_t> layers;
  std::optional<std::uint64_t> seed;
  std::size_t body = 1 << 20;
  double seconds = 30;
  std::vector<double> shares;
  std::vector<std::int64_t> sizes{1};
  std::string format = "fp8", file, prompt;
  std::vector<std::string> stops;
  bool json = false;
  int runs = 0;
};

/// Reads `words` as a command `work` of a program; the sentence of wrong usage, or empty.
std::string usage(std::vector<const char*> words, Values& values) {
  Options program("baleen", "A program", [](bool) { return "1"; });
  Options work = program.command("work", "Works");
  work.integer("--chunk", values.chunk, {1, 65'536}, "Tokens");
  work.integer("--threads,-t", values.threads, {0, 1024}, "Threads");
  work.integer("--layers", values.layers, {1, 61}, "Layers");
  work.seed("--seed", values.seed, "Seed");
  work.bytes("--max-body-bytes", values.body, {1, std::int64_t{1} << 32}, "Body");
  work.real("--seconds", values.seconds, {.min = 0, .max = 1e9}, "Time");
  work.reals("--shares", values.shares, {.min = 0, .max = 1}, "Shares");
  work.integers("--sizes", values.sizes, {1, 64}, "Sizes");
  work.choice("--format", values.format, {"fp8", "bf16"}, "Format");
  work.path("--file", values.file, "File");
  work.texts("--stop", values.stops, "Stop");
  work.text("prompt", values.prompt, "Prompt");
  work.flag("--json", values.json, "JSON");
  work.action([&] { ++values.runs; });
  std::int64_t steps = 1;
  program.command("walk", "Walks").integer("--steps,-s", steps, {1, 9}, "Steps");
  words.insert(words.begin(), "baleen");
  try {
    program.parse(static_cast<int>(words.size()), words.data());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string usage(std::vector<const char*> words) {
  Values values;
  words.insert(words.begin(), "work");
  std::string sentence = usage(words, values);
  EXPECT_EQ(values.runs, sentence.empty() ? 1 : 0);
  return sentence;
}

TEST(Options, SetWhatIsGivenAndKeepTheRest) {
  Values values;
  EXPECT_EQ(usage({"work",
                   "--chunk=7",
                   "-t",
                   "3",
                   "--seed",
                   "18446744073709551615",
                   "--max-body-bytes",
                   "5MB",
                   "--seconds",
                   "0.5",
                   "--shares",
                   "0.9,0.5",
                   "--sizes",
                   "1,16,64",
                   "--format",
                   "bf16",
                   "--stop",
                   "a",
                   "--stop",
                   "b",
                   "hello"},
                  values),
            "");
  EXPECT_EQ(values.chunk, 7);
  EXPECT_EQ(values.threads, 3);
  EXPECT_FALSE(values.layers.has_value());
  EXPECT_EQ(values.seed, UINT64_MAX);
  EXPECT_EQ(values.body, 5'000'000u);
  EXPECT_EQ(values.seconds, 0.5);
  EXPECT_EQ(values.shares, (std::vector<double>{0.9, 0.5}));
  EXPECT_EQ(values.sizes, (std::vector<std::int64_t>{1, 16, 64}));
  EXPECT_EQ(values.format, "bf16");
  EXPECT_EQ(values.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(values.prompt, "hello");
  EXPECT_EQ(values.runs, 1);
}

TEST(Options, NumbersOutsideTheirRange) {
  EXPECT_EQ(usage({"--chunk", "0"}), "--chunk: expected a whole number from 1 to 65,536; found \"0\"");
  EXPECT_EQ(usage({"--chunk", "9223372036854775808"}),
            "--chunk: expected a whole number from 1 to 65,536; found \"9223372036854775808\"");
  EXPECT_EQ(usage({"-t", "-1"}), "--threads: expected a whole number from 0 to 1,024; found \"-1\"");
  EXPECT_NE(usage({"--seed", "18446744073709551616"}), "");
  EXPECT_NE(usage({"--seed", "-1"}), "");
  EXPECT_NE(usage({"--max-body-bytes", "-1"}), "");
  EXPECT_NE(usage({"--max-body-bytes", "9999999999GB"}), "");
  EXPECT_NE(usage({"--max-body-bytes", "5 apples"}), "");
  for (const char* wrong : {"nan", "inf", "-1", "1e400", "", "30s"})
    EXPECT_NE(usage({"--seconds", wrong}), "") << wrong;
  EXPECT_EQ(usage({"--shares", "0.5,nan"}),
            "--shares: number 2: expected a number from 0 to 1; found \"nan\"");
  EXPECT_NE(usage({"--shares", ""}), "");
  EXPECT_EQ(usage({"--sizes", "1,65"}),
            "--sizes: number 2: expected a whole number from 1 to 64; found \"65\"");
  EXPECT_NE(usage({"--sizes", "1,"}), "");
}

TEST(Options, WordsThatAreNotKnown) {
  EXPECT_EQ(usage({"--chunks", "1"}), "\"--chunks\" is not an option; did you mean --chunk?");
  EXPECT_EQ(usage({"--format", "bf61"}),
            "--format: expected one of fp8, bf16; found \"bf61\"; did you mean bf16?");
  EXPECT_EQ(usage({"one", "two"}), "\"two\": nothing more is expected here");
  EXPECT_EQ(usage({"--chunk"}), "--chunk needs a value");
  EXPECT_EQ(usage({"--chunk", "1", "--chunk", "2"}), "--chunk is given more often than once");
  Values values;
  EXPECT_EQ(usage({"wrok"}, values), "\"wrok\" is not a command; did you mean work?");
  EXPECT_EQ(usage({}, values), "a command is missing; there are work, walk");
  EXPECT_EQ(usage({"--steps=3"}), "\"--steps=3\" is not an option of work, but of walk");
  EXPECT_EQ(usage({"-s", "3"}), "\"-s\" is not an option");
  EXPECT_EQ(usage({"--steps", "3"}, values), "\"--steps\" is not an option before a command, but of walk");
  EXPECT_EQ(usage({"--chunk", "3", "work"}, values),
            "\"--chunk\" stands before work, which would not read it; put it behind");
  EXPECT_EQ(usage({"--file", ""}), "--file: expected the name of a file or folder; found \"\"");
}

TEST(Options, OptionsBeforeACommandOfACommand) {
  const auto run = [](std::vector<const char*> words) -> std::string {
    Options program("baleen", "A program", [](bool) { return "1"; });
    Options work = program.command("work", "Works");
    std::int64_t chunk = 0, part_chunk = 0;
    std::string did;
    work.integer("-c,--chunk", chunk, {0, 9}, "Tokens");
    work.action([&] { did = "work"; });
    Options part = work.command("part", "Works in part");
    part.integer("-c,--chunk", part_chunk, {0, 9}, "Tokens");
    part.action([&] { did = "part"; });
    words.insert(words.begin(), "baleen");
    try {
      program.parse(static_cast<int>(words.size()), words.data());
    } catch (const UsageError& error) {
      EXPECT_EQ(did, "");
      return error.what();
    }
    return fmt::format("{} {} {}", did, chunk, part_chunk);
  };
  EXPECT_EQ(run({"work", "--chunk", "3"}), "work 3 0");
  EXPECT_EQ(run({"work", "part", "--chunk", "4"}), "part 0 4");
  EXPECT_EQ(run({"work", "part"}), "part 0 0");
  EXPECT_EQ(run({"work", "-c", "3", "part", "--chunk", "4"}),
            "--chunk stands before part, which would not read it; put it behind");
}

TEST(Options, LongWordsAreNotEchoed) {
  const std::string word(5'000'000, 'A'), option = "--" + word, both = "--chunk=" + word;
  Values values;
  EXPECT_LT(usage({word.c_str()}, values).size(), 200u);
  for (const std::string* text : {&word, &option, &both}) {
    EXPECT_LT(usage({"--chunk", text->c_str()}).size(), 200u);
    EXPECT_LT(usage({"one", text->c_str()}).size(), 200u);
  }
  EXPECT_EQ(usage({"one", "\x1b[31m"}), "\"\\x1b[31m\": nothing more is expected here");
}

TEST(NearestName, IsNearOrEmpty) {
  const std::vector<std::string> names{"tokenize", "train", "convert"};
  EXPECT_EQ(nearest_name("tokenise", names), "tokenize");
  EXPECT_EQ(nearest_name("trian", names), "train");
  EXPECT_EQ(nearest_name("conv", names), "convert");
  EXPECT_EQ(nearest_name("nope", names), "");
  EXPECT_EQ(nearest_name("", names), "");
}

}  // namespace
}  // namespace baleen
