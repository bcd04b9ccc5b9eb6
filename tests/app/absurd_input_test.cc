// The built program against values and files that mean nothing: every number option that the help of any
// command lists gets absurd values, every file option and every file of a checkpoint gets a pipe, a device, a
// folder, nothing, JSON nested 100,000 deep, a sparse terabyte. Each run ends by itself with status 1 or 2
// and a sentence that is no defect's.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>
#include <sstream>

#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;
using test::ProgramInput;
using test::ProgramResult;

constexpr unsigned kSeconds = 240;  // a slow machine that does much else; a hang is endless
constexpr std::int64_t kAddressBytes = std::int64_t{6} << 40;  // the sparse files are mapped

ProgramResult baleen(std::vector<std::string> arguments, const std::string& in = "") {
  arguments.insert(arguments.begin(), test::kBaleenProgram);
  return test::run_program(arguments, {.in = in, .seconds = kSeconds, .address_bytes = kAddressBytes});
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word.substr(0, 60) + " ";
  return text;
}

/// Status 1 or 2 and one short sentence.
void expect_sentence(const std::vector<std::string>& arguments, const std::string& in = "") {
  SCOPED_TRACE(joined(arguments));
  const ProgramResult result = baleen(arguments, in);
  EXPECT_TRUE(result.status == 1 || result.status == 2)
      << result.status << ": " << result.err.substr(0, 1000);
  EXPECT_GT(result.err.size(), 10u);
  EXPECT_LT(result.err.size(), 5000u);
  EXPECT_EQ(result.err.find("unexpected:"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("a defect"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("‹"), std::string::npos) << "a setting without its option: " << result.err;
}

const std::vector<std::vector<std::string>> kCommands{{"run"},
                                                      {"chat"},
                                                      {"serve"},
                                                      {"bench"},
                                                      {"calibrate"},
                                                      {"plan"},
                                                      {"inspect"},
                                                      {"init"},
                                                      {"convert"},
                                                      {"logits"},
                                                      {"tokenize"},
                                                      {"perplexity"},
                                                      {"simulate"},
                                                      {"simulate", "search"},
                                                      {"simulate", "serve"},
                                                      {"simulate", "train"},
                                                      {"simulate", "validate"},
                                                      {"tokenizer", "train"},
                                                      {"data", "pack"},
                                                      {"data", "inspect"}};

/// Words without which a command is wrong already. Nothing in them exists, so that no run can succeed by
/// chance.
std::vector<std::string> needed(const std::vector<std::string>& words) {
  const std::string& command = words.back();
  if (words.front() == "tokenizer") return {"--out", "/absent/out", "--vocab-size", "300", "/absent"};
  if (words.front() == "data")
    return command == "pack" ? std::vector<std::string>{"--out", "/absent/out", "/absent"}
                             : std::vector<std::string>{"/absent"};
  if (command == "init") return {"/dev/null/new"};
  if (command == "convert") return {"/absent/in", "/absent/out"};
  if (command == "logits") return {"--tokens", "/absent", "--out", "/absent/out"};
  if (command == "perplexity") return {"--text", "/absent"};
  if (command == "calibrate") return {"--output", "/absent/profile.json"};
  if (command == "validate") return {"/absent"};
  if (command == "run") return {"text"};
  return {};
}

struct HelpOption {
  std::string name, kind;
};

/// The options of a command of these kinds, by its help.
std::vector<HelpOption> options_of(const std::vector<std::string>& command,
                                   const std::set<std::string>& kinds) {
  std::vector<std::string> arguments = command;
  arguments.push_back("--help");
  std::istringstream help(baleen(arguments).out);
  std::vector<HelpOption> found;
  for (std::string line; std::getline(help, line);) {
    // "  -t,--threads N   ...": the first long name, and what it takes.
    std::istringstream words(line);
    std::string names, kind;
    if (!line.starts_with("  -") || !(words >> names >> kind) || !kinds.contains(kind)) continue;
    const std::size_t begin = names.find("--");
    if (begin != std::string::npos)
      found.push_back({names.substr(begin, names.find(',', begin) - begin), kind});
  }
  return found;
}

TEST(AbsurdInput, NumbersOfEveryOption) {
  const std::string absurd[] = {"nan",
                                "-9223372036854775809",
                                "1e400",
                                "18446744073709551616",
                                "-inf",
                                "",
                                "18446744073709551617",
                                "0x1p999",
                                "1,000",
                                "99999999999999999999999999",
                                "infinity",
                                "--",
                                "\x1b]0;owned\x07",
                                std::string(100'000, '9')};
  // Each run of the program takes 20 ms; over the options every value comes up dozens of times.
  constexpr std::size_t kValuesAnOption = 3;
  std::size_t next = 0, num_options = 0;
  for (const std::vector<std::string>& command : kCommands) {
    for (const HelpOption& option : options_of(command, {"N", "X", "SIZE", "X,X,..."})) {
      ++num_options;
      for (std::size_t i = 0; i < kValuesAnOption; ++i) {
        const std::string& value = absurd[next++ % std::size(absurd)];
        if (option.kind == "X,X,..." && value == "1,000") continue;  // a list of 1 and 0
        std::vector<std::string> arguments = command;
        for (const std::string& word : needed(command)) arguments.push_back(word);
        arguments.push_back(option.name + "=" + value);
        expect_sentence(arguments);
      }
    }
  }
  EXPECT_GT(num_options, 100u) << "the help is not read as it is written";
}

TEST(AbsurdInput, WordsThatNobodyMeant) {
  const std::string long_word(120'000, 'A');  // of one argument the kernel takes 128 KiB
  expect_sentence({long_word});
  expect_sentence({"--" + long_word});
  expect_sentence({"run", "text", "--" + long_word + "=1"});
  expect_sentence({"run", "text", "--precision", long_word});
  expect_sentence({"run", "text", "--device", long_word});
  expect_sentence({"simulate", long_word.substr(0, 300)});
  expect_sentence({"simulate", "--device", long_word.substr(0, 300)});
  expect_sentence({"nope"});
  expect_sentence({"tokenize"}, std::string(100'000, '['));
  expect_sentence({"tokenize"}, "{\"ids\": [1e400]}");
  expect_sentence({"tokenize"}, "{\"ids\": [" + std::string(5'000'000, '9') + "]}");
}

/// Files that are none, or say nothing.
class AbsurdFiles : public testing::Test {
 protected:
  AbsurdFiles() {
    EXPECT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
    fs::create_directory(folder_ / "folder");
    std::ofstream(folder_ / "empty");
    std::string deep;
    for (int i = 0; i < 100'000; ++i) deep += i % 2 == 0 ? "{\"a\":" : "[";
    std::ofstream(folder_ / "deep") << deep;
    std::ofstream(folder_ / "sparse") << "{";
    constexpr std::uintmax_t kTerabyte = std::uintmax_t{1} << 40;
    std::error_code refused;
    fs::resize_file(folder_ / "sparse", kTerabyte, refused);  // not every file system has such files
  }
  [[nodiscard]] std::vector<fs::path> all() const {
    return {folder_ / "pipe", "/dev/zero",        folder_ / "folder", folder_ / "empty",
            folder_ / "deep", folder_ / "sparse", folder_ / "absent"};
  }

  const test::TemporaryFolder folder_;
};

TEST_F(AbsurdFiles, InPlaceOfFilesThatCommandsRead) {
  const std::vector<std::vector<std::string>> readers{
      {"logits", "--out", "/absent/out", "--tokens"},
      {"perplexity", "--text"},
      {"serve", "--port", "0", "--model", "/absent", "--api-key-file"},
      {"simulate", "tiny-flash", "--device"},
      {"simulate", "--model"},
      {"simulate", "validate"},
      {"simulate", "serve", "tiny-flash", "--arrival", "trace", "--trace"},
      {"simulate", "serve", "tiny-flash", "--rate", "1", "--requests", "2", "--num-mtp-tokens", "1",
       "--accepted-lengths"},
      {"inspect"},
      {"tokenize", "--model"},
      {"convert", "--threads", "1", "/absent/out"},
      {"run", "text", "--model"},
      {"plan"}};
  for (const auto& reader : readers) {
    for (const fs::path& file : all()) {
      // To a command that reads text, brackets are a text like any other.
      if (reader.front() == "perplexity" && file.filename() == "deep") continue;
      std::vector<std::string> arguments = reader;
      arguments.push_back(file.string());
      expect_sentence(arguments);
    }
  }
}

TEST_F(AbsurdFiles, PipesWithoutAWriterAreGivenUp) {
  expect_sentence({"run", "--file", folder_ / "pipe"});
  expect_sentence({"run", "--file", "/dev/zero"});
  expect_sentence({"inspect", "--json", "/dev/zero"});
  expect_sentence({"simulate", "tiny-flash", "--decode", "--html", folder_ / "pipe"});
  expect_sentence({"logits", "--tokens", "models/stories/config.json", "--out", folder_ / "pipe"});
}

TEST_F(AbsurdFiles, InPlaceOfFilesOfACheckpoint) {
  const fs::path model = folder_ / "model";
  ASSERT_EQ(baleen({"init", model, "--tokenizer", "models/stories", "--shard-size", "1MB"}).status, 0);
  for (const char* name : {"config.json", "tokenizer.json", "generation_config.json",
                           "model.safetensors.index.json", "model-00001.safetensors"}) {
    const fs::path file = model / name, kept = folder_ / "kept";
    const bool was_there = fs::exists(file);
    if (was_there) fs::rename(file, kept);
    for (const fs::path& absurd : all()) {
      const bool optional = !was_there && absurd.filename() == "absent";
      if (optional) continue;
      fs::create_symlink(absurd, file);
      if (std::string(name) != "generation_config.json" || absurd.filename() != "absent")
        expect_sentence({"run", "text", "--model", model, "-n", "1"});
      fs::remove(file);
    }
    if (was_there) fs::rename(kept, file);
  }
}

}  // namespace
}  // namespace baleen
