// The command from its options to its output, in this process.
#include "app/commands.h"
#include "app/options.h"

#include <gtest/gtest.h>

#include <iterator>
#include <sstream>
#include <vector>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "hardware/device_profile.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

class SimulateServe : public testing::Test {
 protected:
  /// An H200 whose scratch is planned as a CPU's: without a module no other is planned.
  SimulateServe() : device_(write("device.json", "")) {
    DeviceProfile device = load_device_profile("h200");
    device.is_cpu = true;
    write("device.json", profile_text(device));
  }

  std::string write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }

  /// What it prints. Throws as the command does.
  std::string run(const std::string& options) {
    Options program("serve", "");
    add_simulate_serve_command(program);
    std::istringstream text("serve " + plan_ + " --device " + device_ + " " + options);
    const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    testing::internal::CaptureStdout();
    try {
      program.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    return testing::internal::GetCapturedStdout();
  }
  nlohmann::json figures(const std::string& options) {
    return nlohmann::json::parse(run(options + " --json"));
  }
  std::string error(const std::string& options) {
    try {
      run(options);
    } catch (const Error& failed) {
      return failed.what();
    }
    return "";
  }

  test::TemporaryFolder folder_;
  std::string device_;
  std::string plan_ = "--num-devices 4 --tp 4";
};

TEST_F(SimulateServe, PoissonArrivalsAtARate) {
  const auto json = figures("--rate 20 --requests 200 --isl 500 --osl 20 --isl-variation 0.5 --ttft 1000");
  EXPECT_EQ(json.at("group").at("finished"), 200);
  EXPECT_NEAR(json.at("group").at("requests_per_second").get<double>(), 20, 6);
  EXPECT_EQ(json.at("group").at("output_tokens"), 200 * 20);
  EXPECT_GT(json.at("group").at("time_to_first_token").at("p50").get<double>(), 0);
}

/// Of V4.1 the layers behind a prompt's middle compute its last tokens alone, which is quicker.
TEST_F(SimulateServe, BoundedReplay) {
  plan_ = "v41-flash --num-devices 8 --tp 8";
  const std::string load = "--arrival closed --clients 2 --requests 8 --isl 8192 --osl 4";
  const auto whole = figures(load), bounded = figures(load + " --bounded-replay 128");
  EXPECT_EQ(whole.at("bounded_replay"), 0);
  EXPECT_EQ(bounded.at("bounded_replay"), 128);
  const auto first_token = [](const nlohmann::json& json) {
    return json.at("group").at("time_to_first_token").at("mean").get<double>();
  };
  EXPECT_LT(first_token(bounded), 0.8 * first_token(whole));
  EXPECT_NE(run(load + " --bounded-replay 128").find("; the last 128 tokens of a prompt in all layers\n"),
            std::string::npos);
  plan_ = "--num-devices 4 --tp 4";
  EXPECT_NE(error(load + " --bounded-replay 128").find("this model has no decoder half"), std::string::npos);
}

TEST_F(SimulateServe, TextSaysWhatWasSimulated) {
  const std::string text = run("--arrival closed --clients 4 --requests 20 --osl 10 --ttft 1000 --tpot 50");
  for (const char* part : {"4 devices: tp 4", "64 sequences and 8192 tokens a step", "20 finished", "goodput",
                           "time to first token", "batch 4-7", "for each device"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST_F(SimulateServe, GroupsShareTheLoad) {
  plan_ = "--num-devices 8 --tp 4";
  const auto json = figures("--arrival closed --clients 8 --requests 40 --isl 100 --osl 10");
  EXPECT_EQ(json.at("data_parallel_groups"), 2);
  EXPECT_EQ(json.at("group").at("finished"), 20);
  EXPECT_EQ(json.at("group").at("server").at("steps_by_sequences").size(), 5) << "four clients each";
}

TEST_F(SimulateServe, TracesAsRecordedAndAsLengths) {
  const std::string trace =
      write("trace.csv", "arrival,prompt_tokens,output_tokens\n0,100,5\n10,200,7\n20,300,9\n");
  const auto recorded = figures("--arrival trace --trace " + trace + " --speed 2");
  EXPECT_EQ(recorded.at("group").at("finished"), 3);
  EXPECT_EQ(recorded.at("group").at("output_tokens"), 21);
  EXPECT_NEAR(recorded.at("group").at("seconds").get<double>(), 10, 0.5);
  const auto lengths = figures("--rate 5 --requests 6 --lengths-from " + trace);
  EXPECT_EQ(lengths.at("group").at("output_tokens"), 42);
}

TEST_F(SimulateServe, DraftsAndTwoPools) {
  const auto drafts = figures(
      "--arrival closed --requests 5 --osl 101 --num-mtp-tokens 3 --mtp-acceptance 1 --isl 50 "
      "--draft-schedule off");
  EXPECT_EQ(drafts.at("group").at("server").at("steps"), 5 * (1 + 25));
  const std::string recorded = write("accepted", "1\n1\n");
  const auto lengths = figures(
      "--arrival closed --requests 5 --osl 101 --num-mtp-tokens 3 --isl 50 "
      "--draft-schedule off --accepted-lengths " +
      recorded);
  EXPECT_EQ(lengths.at("group").at("server").at("steps"), 5 * (1 + 50));
  const auto pools = figures("--rate 5 --requests 30 --osl 10 --disaggregate --link-gbps 100");
  EXPECT_EQ(pools.at("num_devices"), 8);
  EXPECT_EQ(pools.at("group").at("prefill").at("preemptions"), 0);
  EXPECT_GT(pools.at("group").at("decode").at("steps").get<int>(), 9);
}

/// Published shares, of chains that come as far: 1 + 0.58 + 0.45 + 0.32 tokens a step.
TEST_F(SimulateServe, AcceptanceAsItIsPublishedAndTheScheduleOfDrafts) {
  const std::string load =
      "--arrival closed --clients 4 --requests 40 --osl 400 --isl 50 --num-mtp-tokens 3 ";
  const auto seconds = [&](const std::string& more) {
    return figures(load + more).at("group").at("seconds").get<double>();
  };
  const auto published = figures(load + "--acceptance 0.58,0.45,0.32 --draft-schedule off").at("group");
  const double tokens = published.at("output_tokens").get<double>();
  const double accepted = published.at("accepted_tokens").get<double>();
  const double drafted = published.at("drafted_tokens").get<double>();
  EXPECT_NEAR(accepted / drafted, (0.58 + 0.45 + 0.32) / 3, 0.02);
  EXPECT_NEAR(tokens / (tokens - accepted), 2.35, 0.05);
  // Drafts that are never right are given up, and those that are always right are not.
  const double none = figures("--arrival closed --clients 4 --requests 40 --osl 400 --isl 50")
                          .at("group")
                          .at("seconds")
                          .get<double>();
  // What is left is probing, and the draft head that follows every step.
  const double fixed = seconds("--acceptance 0 --draft-schedule off");
  EXPECT_GT(fixed, 1.1 * none);
  EXPECT_LT(seconds("--acceptance 0") - none, 0.1 * (fixed - none));
  EXPECT_LT(seconds("--acceptance 1"), 1.05 * seconds("--acceptance 1 --draft-schedule off"));
  EXPECT_NE(error(load + "--acceptance 0.4,0.5")
                .find("‹published acceptance› 0.5: shares of chains that come as far fall"),
            std::string::npos);
}

TEST_F(SimulateServe, RefusesNonsense) {
  EXPECT_EQ(error("--rate -3"), "--rate: expected a number from 1e-06 to 1,000,000,000; found \"-3\"");
  EXPECT_THROW(run(""), UsageError) << "--rate";
  EXPECT_THROW(run("--arrival trace"), UsageError) << "--trace";
  EXPECT_THROW(run("--arrival never"), UsageError);
  EXPECT_THROW(run("--rate 1 --requests 0"), UsageError);
  EXPECT_NE(error("--arrival trace --trace no/such/file").find("no/such/file"), std::string::npos);
  EXPECT_NE(error("--rate 1 --mtp-acceptance 2").find("number 1: expected a number from 0 to 1; found \"2\""),
            std::string::npos);
  EXPECT_NE(error("--rate 1 --accepted-lengths " + write("words", "1\ntwo\n"))
                .find("number 2: expected a whole number"),
            std::string::npos);
  EXPECT_NE(error("--rate 1 --context 900000000000").find("900000000000"), std::string::npos);
  EXPECT_NE(error("--rate 1 --isl 0").find("--isl"), std::string::npos);
  EXPECT_NE(error("--rate 1 --arrival gamma --burstiness 0").find("burstiness"), std::string::npos);
  // Longer than any context: every request is refused, and the report says why.
  const std::string text = run("--rate 5 --requests 3 --isl 90000000");
  EXPECT_NE(text.find("3 refused"), std::string::npos) << text;
  EXPECT_NE(text.find("first refusal: the prompt has 90000000 tokens"), std::string::npos) << text;
}

}  // namespace
}  // namespace baleen
