// Figures of the released models from their geometry alone, and the report of a folder.
#include "model_files/inspect.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/presets.h"
#include "model_files/init.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

TEST(Inspect, PublishedParameterCounts) {
  const ParameterCount flash = count_parameters(preset_config("flash"));
  EXPECT_EQ(flash.total, 284'332'240'471);
  EXPECT_EQ(flash.per_token, 13'799'632'471);
  const ParameterCount pro = count_parameters(preset_config("pro"));
  EXPECT_EQ(pro.total, 1'572'997'201'763);
  EXPECT_EQ(pro.per_token, 49'779'081'059);
}

class InspectFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    ThreadPool pool(1);
    init_checkpoint(folder_ / "m", with_experts(preset_config("tiny-flash"), 4),
                    {.max_shard_bytes = 1'000'000}, pool);
  }
  test::TemporaryFolder folder_;
};

TEST_F(InspectFolder, ReportsASoundCheckpoint) {
  const CheckpointReport report = inspect_checkpoint(folder_ / "m");
  EXPECT_TRUE(report.mismatches.empty());
  EXPECT_GT(report.num_files, 1);
  std::int64_t bytes = 0;
  for (const auto& [format, total] : report.by_format) bytes += total.bytes;
  EXPECT_EQ(bytes, report.total_bytes);
  EXPECT_EQ(report.by_format.at("I64").bytes, 512 * 2 * 8);
  const std::string text = report_text(report);
  for (const char* part :
       {"  CSA                 2", "FP4 (packed in I8)", "fit together", "4 routed, 2 a token"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_EQ(json["parameters"]["total"], report.parameters.total);
  EXPECT_EQ(json["layers"]["HCA"], 2);
  EXPECT_TRUE(json["mismatches"].empty());
  EXPECT_EQ(json["kv"]["bytes_per_token"], report.kv.bytes_per_token());
  EXPECT_EQ(json["kv"]["window_bytes_per_sequence"], 5 * report.kv.window_bytes());  // layers
  EXPECT_EQ(json["kv"]["draft_window_bytes_per_sequence"], report.kv.window_bytes());
}

TEST_F(InspectFolder, ListsMismatches) {
  ModelConfig config = with_experts(preset_config("tiny-flash"), 5);
  AtomicFileWriter writer(folder_ / "m" / "config.json");
  writer.write(config_text(config));
  writer.commit();
  const CheckpointReport report = inspect_checkpoint(folder_ / "m");
  EXPECT_GE(report.mismatches.size(), 36u);  // an expert's six tensors in six blocks, and the routers
  const std::string text = report_text(report, 2);
  EXPECT_NE(text.find("more; ‹JSON› lists all"), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(report_json(report))["mismatches"].size(), report.mismatches.size());
}

TEST_F(InspectFolder, NeedsAConfig) {
  std::filesystem::remove(folder_ / "m" / "config.json");
  EXPECT_THROW(static_cast<void>(inspect_checkpoint(folder_ / "m")), Error);
}

}  // namespace
}  // namespace baleen
