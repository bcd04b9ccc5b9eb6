// `bench --report`: one file with all that confirms a machine, and nothing private.
#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

constexpr const char* kSecretHome = "/tmp/home-of-private-user";

/// The report of this machine, without its GPUs, and what was printed.
class MachineReport : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const test::TemporaryFolder folder;
    const std::filesystem::path file = folder / "report.json";
    result_ = test::run_program({"/usr/bin/env", std::string("HOME=") + kSecretHome, "USER=private-user",
                                 "SECRET_TOKEN=token-of-private-user", test::kBaleenProgram, "bench",
                                 "--device", "cpu", "--report", file.string(), "--prompt", "16", "--decode",
                                 "2", "--layers", "1"});
    if (result_.status == 0) text_ = read_text_file(file);
  }

  static test::ProgramResult result_;
  static std::string text_;
};

test::ProgramResult MachineReport::result_;
std::string MachineReport::text_;

TEST_F(MachineReport, HasEverythingThatConfirmsAMachine) {
  ASSERT_EQ(result_.status, 0) << result_.err;
  const Json report = Json::parse(text_);
  EXPECT_EQ(report["format"], "baleen machine report");
  EXPECT_EQ(report["version"], 1);
  EXPECT_EQ(report["failures"], Json::array());
  for (const char* field : {"version", "revision", "sources", "compiler", "build_type"})
    EXPECT_TRUE(report["program"][field].is_string()) << field;
  EXPECT_EQ(report["program"]["sources"].get<std::string>().size(), 64u);
  const Json& host = report["host"];
  EXPECT_FALSE(host["processor"].get<std::string>().empty());
  EXPECT_GE(host["logical_cores"], 1);
  EXPECT_FALSE(host["instruction_sets"].empty());
  EXPECT_GT(host["memory_bytes"], host["available_memory_bytes"]);
  EXPECT_GT(host["read_bytes_per_second"], 0);
  EXPECT_GT(host["multiply_add_flops_per_second"], 0);
  EXPECT_TRUE(report["driver"].contains("gpus"));
  EXPECT_EQ(report["device"]["name"], "cpu");
  ASSERT_EQ(report["benchmarks"].size(), 2u);
  EXPECT_EQ(report["benchmarks"][0]["model"], "stories");
  EXPECT_EQ(report["benchmarks"][1]["model"], "flash");
  EXPECT_EQ(report["benchmarks"][1]["layers"], 1);
  for (const Json& benchmark : report["benchmarks"]) {
    EXPECT_TRUE(benchmark["weight_bytes"].is_number());  // on a CPU 0: weights are mapped
    ASSERT_EQ(benchmark["phases"].size(), 2u);
    for (const Json& phase : benchmark["phases"]) EXPECT_GT(phase["median_step_seconds"], 0);
  }
}

TEST_F(MachineReport, ChecksWhatTheDeviceChoosesAndItsOtherVariants) {
  ASSERT_EQ(result_.status, 0) << result_.err;
  const Json report = Json::parse(text_);
  ASSERT_EQ(report["self_check"].size(), 2u);
  for (const Json& check : report["self_check"]) {
    EXPECT_GT(check["cpu_median_error"], 0);
    ASSERT_GE(check["checked"].size(), 1u) << check;
    EXPECT_EQ(check["checked"][0]["operation"], "all");
    for (const Json& one : check["checked"]) EXPECT_EQ(one["failure"], nullptr) << one;
    EXPECT_EQ(check["checked"][0]["agrees"], true) << check["checked"][0];
  }
}

TEST_F(MachineReport, NamesNothingPrivate) {
  ASSERT_EQ(result_.status, 0) << result_.err;
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  std::vector<std::string> secrets{kSecretHome, "private-user", "token-of-private-user",
                                   std::filesystem::path(test::kBaleenProgram).parent_path().string(),
                                   std::filesystem::current_path().string()};
  if (std::string(host.data()).size() > 3) secrets.emplace_back(host.data());
  if (const passwd* user = ::getpwuid(::getuid()); user != nullptr) {
    secrets.emplace_back(user->pw_dir);
    if (std::string(user->pw_name).size() > 3) secrets.emplace_back("\"" + std::string(user->pw_name));
  }
  for (const std::string& secret : secrets) {
    if (secret.size() > 1) {
      EXPECT_EQ(text_.find(secret), std::string::npos) << secret;
    }
  }
  for (const char* sign : {"/home", "/root", "/tmp", "uuid", "serial", "127.0.0.1"})
    EXPECT_EQ(text_.find(sign), std::string::npos) << sign;
}

TEST(MachineReportOption, AFileThatCannotBeWrittenIsSaidFirst) {
  const test::ProgramResult result = test::run_program(
      {test::kBaleenProgram, "bench", "--device", "cpu", "--report", "/no/such/folder/report.json"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("/no/such/folder"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("report: host"), std::string::npos) << "nothing was measured";
}

}  // namespace
}  // namespace baleen
