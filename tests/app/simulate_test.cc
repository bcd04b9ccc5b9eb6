// `baleen simulate` from outside: exit status, sentences, files.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "device/device_choice.h"
#include "tests/support/baleen_program.h"
#include "tests/support/run_program.h"

namespace baleen {
namespace {

using test::ProgramResult;

ProgramResult simulate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {test::kBaleenProgram, "simulate"});
  return test::run_program(arguments, {});
}

void expect_failure(const ProgramResult& result, int status, const std::string& part) {
  EXPECT_EQ(result.status, status) << result.err;
  EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("unexpected"), std::string::npos) << result.err;
}

TEST(Simulate, TableAndJson) {
  const ProgramResult table = simulate({"flash", "--num-devices", "4", "--tp", "4", "--decode"});
  EXPECT_EQ(table.status, 0) << table.err;
  // The scratch of kernels is known only where their module is.
  const bool knows_scratch = why_not_scratch(device_traits(planned_gpu(), 1)).empty();
  EXPECT_EQ(table.err.find("baleen_sm90.so") == std::string::npos, knows_scratch) << table.err;
  EXPECT_EQ(std::ranges::count(table.err, '\n'), knows_scratch ? 0 : 1) << table.err;
  for (const char* part : {"Name ", "\nexperts ", "time per token", "weights", "are left"})
    EXPECT_NE(table.out.find(part), std::string::npos) << part;
  const ProgramResult json = simulate({"flash", "--num-devices", "4", "--tp", "4", "--decode", "--json"});
  EXPECT_EQ(json.status, 0);
  EXPECT_EQ(nlohmann::json::parse(json.out)["plan"]["tp"], 4);
}

TEST(Simulate, TablesOfNGramsLieWhereTheyAreWanted) {
  const auto v41 = [](std::vector<std::string> more) {
    std::vector<std::string> arguments{"v41-flash", "--num-devices", "4", "--tp", "4", "--decode"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return simulate(arguments);
  };
  const auto expect = [](const ProgramResult& result, const std::string& line) {
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.out.find(line), std::string::npos) << result.out;
  };
  expect(v41({}), "tables of n-grams    202.758  in the host's memory, of which a token reads 48 rows\n");
  expect(v41({"--engram", "disk", "--disk-gbps", "5"}), "202.758  on disk, of which a token reads 48 rows\n");
  expect_failure(v41({"--engram", "disk"}), 1, "GB are missing on a device");  // of a disk nothing is said
  expect_failure(v41({"--num-mtp-tokens", "6"}), 1, "--num-mtp-tokens 6: the DSpark head drafts 5 at most");
}

TEST(Simulate, WritesFilesWholeOrNotAtAll) {
  const test::TemporaryFolder folder;
  const std::string html = folder / "step.html", trace = folder / "step.json";
  EXPECT_EQ(simulate({"tiny-flash", "--decode", "--html", html, "--trace", trace}).status, 0);
  EXPECT_TRUE(read_text_file(html).ends_with("</html>\n"));
  EXPECT_TRUE(nlohmann::json::accept(read_text_file(trace)));
  expect_failure(simulate({"tiny-flash", "--decode", "--html", folder / "absent" / "step.html"}), 1,
                 "absent");
}

TEST(Simulate, WhatDoesNotFitSaysWhatWould) {
  const std::vector<std::string> arguments{"pro", "--num-devices",        "2",    "--tp",
                                           "2",   "--host-experts-bytes", "1GiB", "--decode"};
  ProgramResult result = simulate(arguments);
  expect_failure(result, 1, "GB are missing on a device; 8 devices: ");
  EXPECT_NE(result.out.find("too much"), std::string::npos) << "the table is printed all the same";
}

TEST(Simulate, WrongUsageAndWorkloadsThatMeanNothing) {
  expect_failure(simulate({"--num-queries", "many"}), 2, "--num-queries");
  expect_failure(simulate({"--tp", "-1"}), 2, "--tp: expected a whole number from 0 to 65,536; found \"-1\"");
  expect_failure(simulate({"--reserved-memory-gb", "1e300"}), 2, "--reserved-memory-gb");
  expect_failure(simulate({"--no-such-option"}), 2, "--no-such-option");
  expect_failure(simulate({"--num-queries", "-1"}), 2, "from 1 to 1,048,576");
  expect_failure(simulate({"--decode", "--query-length", "3"}), 1, "--query-length 3 with --decode");
  expect_failure(simulate({"--context-length", "9000000000000000000"}), 2, "--context-length");
  expect_failure(simulate({"--context-length", "9000000000"}), 1, "the model has 1048576 positions");
  expect_failure(simulate({"--tp", "3"}), 1, "--tp 3: 64 heads");
  expect_failure(simulate({"--device", "h2000"}), 1, "mi300x");
  expect_failure(simulate({"no-such-model"}), 1, "pro");
}

TEST(SimulateTrain, WhatDoesNotFitIsStatus1) {
  const ProgramResult result = simulate({"train", "pro", "--device", "h800", "--num-devices", "8"});
  expect_failure(result, 1, "does not fit");
  EXPECT_NE(result.out.find("too much"), std::string::npos) << "the table is printed all the same";
}

TEST(SimulateRates, AreAboveZero) {
  expect_failure(simulate({"serve", "tiny-flash", "--rate", "0"}), 2, "--rate: expected a number from 1e-06");
  expect_failure(simulate({"serve", "tiny-flash"}), 2, "--rate is missing: a number from 1e-06");
}

TEST(SimulateSearch, LimitsThatNothingMeets) {
  const ProgramResult result = simulate({"search", "--num-devices", "2", "--ttft", "0.001"});
  expect_failure(result, 1, "no plan of 2 devices is within these limits");
  EXPECT_NE(result.out.find("first token after the limit"), std::string::npos);
  expect_failure(simulate({"search", "--osl", "0"}), 2, "--osl");
  expect_failure(simulate({"search", "--ttft", "-1"}), 2, "--ttft");
}

}  // namespace
}  // namespace baleen
