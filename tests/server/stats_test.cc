#include "server/stats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/metrics.h"

namespace baleen {
namespace {

SchedulerStats some_stats() {
  SchedulerStats stats;
  stats.waiting = 2;
  stats.reply_tokens = 80;
  stats.draft_chains = 30;
  stats.drafts_by_depth = {{.drafted = 30, .accepted = 20}, {.drafted = 25, .accepted = 11}};
  stats.step_seconds = 1.5;
  stats.cache.pages = {.total = 10, .free = 5, .cached = 3, .in_use = 2};
  return stats;
}

EngineView some_view() {
  EngineView view;
  view.tree.push_back({.id = 4, .parent = -1, .num_tokens = 512, .tombstone = true, .last_access = 9});
  view.expert_load = {{1, 2}, {}};
  view.operations.push_back({.name = "linear", .calls = 7, .seconds = 0.5, .bytes = 1e9, .flops = 2e9});
  return view;
}

TEST(Stats, HasWhatThePageDraws) {
  ServedModel model;
  model.name = "quoted \"name\"";
  model.num_layers = 6;
  model.bounded_replay_tokens = 128;
  EngineView view = some_view();
  auto json = nlohmann::json::parse(stats_json(model, some_stats(), view, HttpStats{.connections = 1}, 12.5));
  EXPECT_EQ(json["model"]["name"], "quoted \"name\"");
  EXPECT_EQ(json["model"]["layers"], 6);
  EXPECT_EQ(json["model"]["bounded_replay"], 128);
  EXPECT_EQ(json["uptime_seconds"], 12.5);
  EXPECT_EQ(json["scheduler"]["waiting"], 2);
  EXPECT_EQ(json["pools"]["pages"]["cached"], 3);
  EXPECT_EQ(json["tree"][0]["tokens"], 512);
  EXPECT_EQ(json["tree"][0]["tombstone"], true);
  EXPECT_EQ(json["expert_load"][0][1], 2);
  EXPECT_TRUE(json["expert_load"][1].is_array());
  EXPECT_EQ(json["operations"][0]["name"], "linear");
  EXPECT_TRUE(json["disk"].is_null());
  EXPECT_EQ(json["http"]["connections"], 1);

  view.disk = DiskTierStats{.num_files = 3};
  view.disk_budget_bytes = 100;
  json = nlohmann::json::parse(stats_json(model, some_stats(), view, {}, 0));
  EXPECT_EQ(json["disk"]["files"], 3);
  EXPECT_EQ(json["disk"]["budget_bytes"], 100);
}

TEST(Stats, NamesTheRolesOfGroupsAndWhatIsSentBetweenThem) {
  EngineView view = some_view();
  view.num_groups = 3;
  const auto ranks = [&] {
    return nlohmann::json::parse(stats_json(ServedModel{}, some_stats(), view, {}, 0))["ranks"];
  };
  EXPECT_EQ(ranks()["roles"], nlohmann::json({"both", "both", "both"}));
  EXPECT_TRUE(ranks()["transfers"].is_null());
  EXPECT_EQ(Metrics().text(some_stats(), view, {}).find("baleen_transferred"), std::string::npos);
  view.num_prefill_groups = 2;
  view.transfers = TransferStats{.num_sequences = 5, .num_prefixes = 4, .num_bytes = 600, .num_refused = 1};
  EXPECT_EQ(ranks()["roles"], nlohmann::json({"prefill", "prefill", "decode"}));
  EXPECT_EQ(ranks()["transfers"],
            nlohmann::json({{"sequences", 5}, {"prefixes", 4}, {"bytes", 600}, {"refused", 1}}));
  const std::string metrics = Metrics().text(some_stats(), view, {});
  for (const char* line :
       {"baleen_rank_group_roles{role=\"prefill\"} 2", "baleen_rank_group_roles{role=\"decode\"} 1",
        "baleen_transferred_sequences_total 5", "baleen_transferred_prefixes_total 4",
        "baleen_transferred_bytes_total 600", "baleen_refused_transfers_total 1"})
    EXPECT_NE(metrics.find(line), std::string::npos) << line << "\nin\n" << metrics;
}

EngineView view_with_balance() {
  EngineView view = some_view();
  view.expert_balance = ExpertBalance{.num_steps = 900,
                                      .num_evaluations = 1,
                                      .num_rebalancings = 1,
                                      .num_moved_experts = 3,
                                      .moved_bytes = 600};
  view.expert_balance->layers = {{.before = {6, 2}, .after = {4, 4}}, {.before = {0, 0}, .after = {0, 0}}};
  view.expert_table = {{0, 1, 1, 2}, {2, 1, 0, 0}};
  return view;
}

TEST(Stats, HasTheLoadsOfRanksBeforeAndAfter) {
  const EngineView view = view_with_balance();
  const auto json = nlohmann::json::parse(stats_json(ServedModel{}, some_stats(), view, {}, 0));
  const auto& balance = json["expert_balance"];
  EXPECT_EQ(balance["rebalancings"], 1);
  EXPECT_EQ(balance["moved_bytes"], 600);
  EXPECT_EQ(balance["layers"][0]["before"][0], 6);
  EXPECT_EQ(balance["layers"][0]["after"][1], 4);
  EXPECT_NEAR(balance["balancedness"]["before"]["mean"].get<double>(), 4.0 / 6, 1e-12);
  EXPECT_EQ(balance["balancedness"]["after"]["least"], 1);
  EXPECT_EQ(nlohmann::json::parse(experts_json(view))["physical_to_logical"][1][0], 2);
  EXPECT_TRUE(
      nlohmann::json::parse(stats_json(ServedModel{}, some_stats(), some_view(), {}, 0))["expert_balance"]
          .is_null());
}

TEST(Metrics, HaveBalancednessOnceItIsKnown) {
  EngineView view = view_with_balance();
  const Metrics metrics;
  const std::string text = metrics.text(some_stats(), view, {});
  for (const char* line :
       {"baleen_expert_balancedness{maps=\"after\",layers=\"mean\"} 1",
        "baleen_expert_balancedness{maps=\"before\",layers=\"least\"} 0.66", "baleen_moved_experts_total 3",
        "baleen_moved_expert_bytes_total 600", "baleen_expert_rebalancings_total 1"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  view.expert_balance->num_evaluations = 0;
  EXPECT_EQ(metrics.text(some_stats(), view, {}).find("balancedness"), std::string::npos);
}

TEST(Stats, HasWhereExpertsLie) {
  EngineView view = some_view();
  const auto places = [&] {
    return nlohmann::json::parse(stats_json(ServedModel{}, some_stats(), view, {}, 0))["expert_places"];
  };
  EXPECT_TRUE(places().is_null());
  view.expert_places = ExpertPlaceStats{
      .placed = {.num_blocks = 2, .num_experts = 8, .num_on_host = 5, .num_on_disk = 1, .num_slots = 3},
      .fetched = {.resident = 40,
                  .in_slots = 4,
                  .from_host = 6,
                  .from_disk = 2,
                  .guessed = 9,
                  .guessed_chosen = 5,
                  .bytes_ahead = 700,
                  .bytes_behind = 300}};
  EXPECT_EQ(places()["placed"], nlohmann::json({{"gpu", 10}, {"host", 5}, {"disk", 1}}));
  EXPECT_EQ(places()["chosen"],
            nlohmann::json({{"gpu", 40}, {"slot", 4}, {"host", 6}, {"disk", 2}, {"computed", 0}}));
  EXPECT_TRUE(places()["computed"].is_null());
  EXPECT_EQ(places()["bytes_ahead"], 700);
  const std::string text = Metrics().text(some_stats(), view, {});
  for (const char* line : {"baleen_experts{place=\"gpu\"} 10", "baleen_experts{place=\"disk\"} 1",
                           "baleen_chosen_experts_total{place=\"slot\"} 4",
                           "baleen_fetched_expert_bytes_total{when=\"before\"} 700",
                           "baleen_guessed_experts_total 9", "baleen_guessed_experts_chosen_total 5"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  EXPECT_EQ(text.find("baleen_host_expert"), std::string::npos);
}

TEST(Stats, HasWhatTheHostComputes) {
  EngineView view = some_view();
  view.expert_places = ExpertPlaceStats{
      .placed = {.num_blocks = 2, .num_experts = 8, .num_on_host = 5, .num_slots = 3},
      .fetched = {.resident = 40, .computed = 30, .computed_rows = 45, .waited_ns = 2'500'000'000},
      .computed = HostComputeStats{.requests = 20,
                                   .seconds = 4.5,
                                   .times = {.fetch_piece = 1250,
                                             .compute_expert = 200'000,
                                             .compute_row = 20'000,
                                             .hand_over = 10'000},
                                   .fetch_seconds = 250e-6}};
  const auto places =
      nlohmann::json::parse(stats_json(ServedModel{}, some_stats(), view, {}, 0))["expert_places"];
  EXPECT_EQ(places["chosen"]["computed"], 30);
  EXPECT_EQ(places["computed"]["rows"], 45);
  EXPECT_EQ(places["computed"]["requests"], 20);
  EXPECT_EQ(places["computed"]["seconds"], 4.5);
  EXPECT_EQ(places["computed"]["wait_seconds"], 2.5);
  EXPECT_EQ(places["computed"]["compute_us"], 200);
  EXPECT_EQ(places["computed"]["fetch_us"], 250);
  const std::string text = Metrics().text(some_stats(), view, {});
  for (const char* line :
       {"baleen_chosen_experts_total{place=\"computed\"} 30", "baleen_computed_expert_rows_total 45",
        "baleen_host_expert_requests_total 20", "baleen_host_expert_seconds_total 4.5",
        "baleen_host_expert_wait_seconds_total 2.5",
        "baleen_host_expert_split_seconds{way=\"compute\"} 0.0002"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
}

TEST(CounterHistory, IsARingWithTheOldestFirst) {
  CounterHistory history(3);
  for (int second = 0; second < 5; ++second) {
    SchedulerStats stats = some_stats();
    stats.reply_tokens = 10 * second;
    history.add(second, stats);
    EXPECT_EQ(history.samples().size(), std::min(second + 1, 3));
  }
  const std::vector<CounterSample> samples = history.samples();
  EXPECT_EQ(samples.front().uptime_seconds, 2);
  EXPECT_EQ(samples.back().uptime_seconds, 4);
  EXPECT_EQ(samples.back().reply_tokens, 40);
  EXPECT_EQ(samples[1].waiting, 2);
}

TEST(Stats, HistoryHasItsColumnsNamed) {
  CounterHistory history(2);
  history.add(7.5, some_stats());
  const auto json =
      nlohmann::json::parse(stats_json(ServedModel{}, some_stats(), some_view(), {}, 8, &history));
  const auto& columns = json["history"]["columns"];
  const auto& rows = json["history"]["rows"];
  ASSERT_EQ(rows.size(), 1);
  ASSERT_EQ(rows[0].size(), columns.size());
  std::map<std::string, double> sample;
  for (std::size_t i = 0; i < columns.size(); ++i) sample[columns[i]] = rows[0][i];
  EXPECT_EQ(sample["uptime_seconds"], 7.5);
  EXPECT_EQ(sample["reply_tokens"], 80);
  EXPECT_EQ(sample["step_seconds"], 1.5);
  EXPECT_EQ(sample["waiting"], 2);
}

TEST(Metrics, CountsRequestsAndShowsTheParts) {
  Metrics metrics;
  RequestReport report{.protocol = &kMessagesApi, .status = 200};
  report.choices.push_back({.reply_tokens = 10, .drafted_tokens = 8, .accepted_tokens = 6, .steps = 4});
  report.token_gaps_seconds = {0.004, 0.02};
  metrics.observe(report);
  const std::string text = metrics.text(some_stats(), some_view(), {});
  for (const char* line :
       {"baleen_requests_total{api=\"messages\",status=\"200\"} 1", "baleen_reply_tokens_total 80",
        "baleen_cache_pages{pool=\"pages\",use=\"cached\"} 3", "baleen_time_between_tokens_seconds_count 2",
        "baleen_time_between_tokens_seconds_bucket{le=\"0.005\"} 1", "baleen_tokens_per_decode_step_sum 2.25",
        "baleen_draft_chains_total 30", "baleen_drafts_total{position=\"2\"} 25",
        "baleen_accepted_drafts_total{position=\"1\"} 20",
        "baleen_operation_seconds_total{operation=\"linear\"} 0.5", "# TYPE baleen_requests_waiting gauge"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nin\n" << text;
  }
}

}  // namespace
}  // namespace baleen
