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

TEST(Inspect, PublishedKvSizes) {
  const KvSize flash = kv_size(preset_config("flash"));
  EXPECT_EQ(flash.latent_row_bytes, 584);
  EXPECT_EQ(flash.indexer_row_bytes, 68);
  EXPECT_EQ(flash.bytes_per_token, 21 * 652 / 4.0 + 20 * 584 / 128.0);
  EXPECT_NEAR(flash.bytes_per_token, 3514, 0.5);
  EXPECT_EQ(flash.window_bytes, 128 * 584 * 43);
  EXPECT_EQ(flash.mtp_window_bytes, 128 * 584);
  EXPECT_EQ(flash.csa_state_bytes, 1'720'320);
  EXPECT_EQ(flash.hca_state_bytes, 10'485'760);
  const KvSize pro = kv_size(preset_config("pro"));
  EXPECT_NEAR(pro.bytes_per_token, 5031, 0.5);
  EXPECT_EQ(pro.csa_state_bytes, 2'457'600);
  EXPECT_EQ(pro.hca_state_bytes, 16'252'928);
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
}

TEST_F(InspectFolder, ListsMismatches) {
  ModelConfig config = with_experts(preset_config("tiny-flash"), 5);
  AtomicFileWriter writer(folder_ / "m" / "config.json");
  writer.write(config_text(config));
  writer.commit();
  const CheckpointReport report = inspect_checkpoint(folder_ / "m");
  EXPECT_GE(report.mismatches.size(), 36u);  // an expert's six tensors in six blocks, and the routers
  const std::string text = report_text(report, 2);
  EXPECT_NE(text.find("more; --json lists all"), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(report_json(report))["mismatches"].size(), report.mismatches.size());
}

TEST_F(InspectFolder, NeedsAConfig) {
  std::filesystem::remove(folder_ / "m" / "config.json");
  EXPECT_THROW(static_cast<void>(inspect_checkpoint(folder_ / "m")), Error);
}

}  // namespace
}  // namespace baleen
