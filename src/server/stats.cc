#include "server/stats.h"

#include <nlohmann/json.hpp>

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

Json pool_json(const PoolUse& pool) {
  return {{"total", pool.total}, {"free", pool.free}, {"cached", pool.cached}, {"in_use", pool.in_use}};
}

/// Of each position of a chain.
Json drafts_json(const SchedulerStats& stats) {
  Json drafts = Json::array();
  for (const DraftsAtDepth& at : stats.drafts_by_depth)
    drafts.push_back({{"drafted", at.drafted}, {"accepted", at.accepted}});
  return drafts;
}

Json scheduler_json(const SchedulerStats& stats) {
  return {{"waiting", stats.waiting},
          {"running", stats.running},
          {"submitted", stats.submitted},
          {"finished", stats.finished},
          {"cancelled", stats.cancelled},
          {"failed", stats.failed},
          {"refused", stats.refused},
          {"prompt_tokens", stats.prompt_tokens},
          {"cached_tokens", stats.cached_tokens},
          {"reply_tokens", stats.reply_tokens},
          {"drafted_tokens", stats.drafted_tokens},
          {"accepted_tokens", stats.accepted_tokens},
          {"draft_chains", stats.draft_chains},
          {"drafts_by_depth", drafts_json(stats)},
          {"steps", stats.steps},
          {"preemptions", stats.preemptions},
          {"looping_replies", stats.looping_replies},
          {"looping_thinking", stats.looping_thinking},
          {"thinking_over_budget", stats.thinking_over_budget},
          {"step_seconds", stats.step_seconds},
          {"idle_seconds", stats.idle_seconds}};
}

Json tree_json(const std::vector<RadixNodeSummary>& tree) {
  Json nodes = Json::array();
  for (const RadixNodeSummary& node : tree) {
    nodes.push_back({{"id", node.id},
                     {"parent", node.parent},
                     {"tokens", node.num_tokens},
                     {"tombstone", node.tombstone},
                     {"full_lock", node.full_lock},
                     {"window_lock", node.window_lock},
                     {"last_access", node.last_access}});
  }
  return nodes;
}

/// `tokenizer`: for text, or null.
Json prefixes_json(const SchedulerStats& stats, const EngineView& engine, const Tokenizer* tokenizer) {
  Json ends;
  for (std::size_t end = 0; end < kPrefixEndNames.size(); ++end)
    ends[std::string(kPrefixEndNames[end])] = stats.prefix_ends[end];
  Json recent = Json::array();
  for (const RecentPrefix& prefix : engine.prefixes) {
    const PrefixLookup& lookup = prefix.lookup;
    Json one = {{"request", static_cast<std::int64_t>(prefix.request)},
                {"end", name_of(lookup.end)},
                {"prompt_tokens", lookup.prompt_tokens},
                {"found_tokens", lookup.found_tokens},
                {"first_difference", lookup.first_difference},
                {"lost_tokens", lookup.lost_tokens}};
    if (tokenizer != nullptr) {
      one["text"] = {{"before", tokenizer->decode(prefix.before)},
                     {"prompt", tokenizer->decode(prefix.prompt)},
                     {"cached", tokenizer->decode(lookup.cached_tokens)}};
    }
    recent.push_back(std::move(one));
  }
  return {{"ends", ends}, {"lost_tokens", stats.lost_prefix_tokens}, {"recent", recent}};
}

Json disk_json(const EngineView& engine) {
  if (!engine.disk) return nullptr;
  const DiskTierStats& disk = *engine.disk;
  return {{"files", disk.num_files},
          {"bytes", disk.file_bytes},
          {"budget_bytes", engine.disk_budget_bytes},
          {"written_pages", disk.written_pages},
          {"read_pages", disk.read_pages},
          {"dropped_pages", disk.dropped_pages},
          {"rejected_files", disk.rejected_files},
          {"evicted_files", disk.evicted_files},
          {"knows_model", disk.knows_model},
          {"bytes_to_hash", disk.bytes_to_hash},
          {"hashed_bytes", disk.hashed_bytes}};
}

/// Of each data-parallel group.
Json roles_json(const EngineView& engine) {
  Json roles = Json::array();
  for (std::int64_t group = 0; group < engine.num_groups; ++group) {
    if (engine.num_prefill_groups == 0) {
      roles.emplace_back("both");
    } else {
      roles.emplace_back(group < engine.num_prefill_groups ? "prefill" : "decode");
    }
  }
  return roles;
}

Json transfers_json(const EngineView& engine) {
  if (!engine.transfers) return nullptr;
  return {{"sequences", engine.transfers->num_sequences},
          {"prefixes", engine.transfers->num_prefixes},
          {"bytes", engine.transfers->num_bytes},
          {"refused", engine.transfers->num_refused}};
}

Json balance_json(const EngineView& engine) {
  if (!engine.expert_balance) return nullptr;
  const ExpertBalance& balance = *engine.expert_balance;
  const auto over_layers = [](const Balancedness& value) {
    return Json{{"mean", value.mean}, {"least", value.least}};
  };
  Json layers = Json::array();
  for (const LayerBalance& layer : balance.layers)
    layers.push_back({{"before", layer.before}, {"after", layer.after}});
  return {
      {"steps", balance.num_steps},
      {"evaluations", balance.num_evaluations},
      {"rebalancings", balance.num_rebalancings},
      {"failures", balance.num_failures},
      {"last_failure", balance.last_failure},
      {"moved_experts", balance.num_moved_experts},
      {"moved_bytes", balance.moved_bytes},
      {"balancedness", {{"before", over_layers(balance.before())}, {"after", over_layers(balance.after())}}},
      {"layers", layers}};
}

Json computed_json(const HostComputeStats& computed, const ExpertFetchCounts& counts) {
  return {{"rows", counts.computed_rows},
          {"requests", computed.requests},
          {"seconds", computed.seconds},
          {"wait_seconds", 1e-9 * static_cast<double>(counts.waited_ns)},
          {"compute_us", 1e-3 * computed.times.compute_expert},
          {"fetch_us", 1e6 * computed.fetch_seconds}};
}

Json places_json(const EngineView& engine) {
  if (!engine.expert_places) return nullptr;
  const auto& [placed, fetched, computed] = *engine.expert_places;
  return {{"placed",
           {{"gpu", placed.num_on_device()}, {"host", placed.num_on_host}, {"disk", placed.num_on_disk}}},
          {"slots_of_a_layer", placed.num_slots},
          {"chosen",
           {{"gpu", fetched.resident},
            {"slot", fetched.in_slots},
            {"host", fetched.from_host},
            {"disk", fetched.from_disk},
            {"computed", fetched.computed}}},
          {"guessed", fetched.guessed},
          {"guessed_chosen", fetched.guessed_chosen},
          {"bytes_ahead", fetched.bytes_ahead},
          {"bytes_behind", fetched.bytes_behind},
          {"computed", computed ? computed_json(*computed, fetched) : Json()}};
}

/// A row for each sample, to be short: its columns are named once.
Json history_json(const CounterHistory& history) {
  Json rows = Json::array();
  for (const CounterSample& sample : history.samples()) {
    rows.push_back({sample.uptime_seconds, sample.running, sample.waiting, sample.prompt_tokens,
                    sample.cached_tokens, sample.reply_tokens, sample.steps, sample.step_seconds});
  }
  return {{"columns",
           {"uptime_seconds", "running", "waiting", "prompt_tokens", "cached_tokens", "reply_tokens", "steps",
            "step_seconds"}},
          {"rows", rows}};
}

}  // namespace

std::string stats_json(const ServedModel& model, const SchedulerStats& scheduler, const EngineView& engine,
                       const HttpStats& http, double uptime_seconds, const CounterHistory* history,
                       bool prefix_text) {
  Json operations = Json::array();
  for (const OperationTime& operation : engine.operations) {
    operations.push_back({{"name", operation.name},
                          {"calls", operation.calls},
                          {"seconds", operation.seconds},
                          {"bytes", operation.bytes},
                          {"flops", operation.flops}});
  }
  Json stats = {{"model",
                 {{"name", model.name},
                  {"layers", model.num_layers},
                  {"vocab_size", model.limits.vocab_size},
                  {"context_tokens", model.limits.context_tokens},
                  {"experts", model.num_experts},
                  {"bounded_replay", model.bounded_replay_tokens},
                  {"max_sequences", model.limits.max_sequences}}},
                {"uptime_seconds", uptime_seconds},
                {"scheduler", scheduler_json(scheduler)},
                {"pools",
                 {{"pages", pool_json(scheduler.cache.pages)},
                  {"window_pages", pool_json(scheduler.cache.window_pages)},
                  {"state_slots", pool_json(scheduler.cache.state_slots)}}},
                {"tree", tree_json(engine.tree)},
                {"prefixes", prefixes_json(scheduler, engine, prefix_text ? model.tokenizer : nullptr)},
                {"expert_load", engine.expert_load},
                {"expert_balance", balance_json(engine)},
                {"expert_places", places_json(engine)},
                {"operations", operations},
                {"disk", disk_json(engine)},
                {"ranks",
                 {{"count", engine.num_ranks},
                  {"groups", engine.num_groups},
                  {"roles", roles_json(engine)},
                  {"transfers", transfers_json(engine)},
                  {"plan", engine.plan}}},
                {"http",
                 {{"connections", http.connections},
                  {"accepted", http.accepted},
                  {"requests", http.requests},
                  {"rejected", http.rejected},
                  {"timed_out", http.timed_out},
                  {"dropped_slow", http.dropped_slow}}}};
  if (history != nullptr) stats["history"] = history_json(*history);
  return stats.dump();
}

std::string experts_json(const EngineView& engine) {
  return Json{{"physical_to_logical", engine.expert_table}}.dump();
}

}  // namespace baleen
