#include "simulator/cost/deployment_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/decoder_half.h"

namespace baleen {
namespace {

Workload decode_workload(const ServingLoad& load) {
  return {.num_queries = load.concurrency,
          .query_length = 1,
          .context_length = load.prompt_tokens + load.reply_tokens / 2,
          .decode = true,
          .num_drafts = load.num_drafts,
          .draft_acceptance = load.draft_acceptance,
          .imbalance = load.imbalance,
          .hash_imbalance = load.hash_imbalance};
}

}  // namespace

std::string to_text(const ServingLoad& load) {
  std::string text =
      fmt::format("prompts of {} tokens, replies of {}", load.prompt_tokens, load.reply_tokens);
  if (load.bounded_replay > 0)
    text += fmt::format(", the last {} of a prompt in all layers", load.bounded_replay);
  return text;
}

std::int64_t deployment_memory_bytes(const PlanRanks& ranks, const ServingLoad& load,
                                     const DeviceProfile& device) {
  const ParallelPlan& plan = ranks.plan();
  const std::int64_t sequences = (load.concurrency + plan.dp - 1) / plan.dp;
  const RankLoad rank{.num_sequences = sequences,
                      .cached_positions = load.prompt_tokens + load.reply_tokens,
                      .step_rows = std::max(std::min(load.max_batch_tokens, load.prompt_tokens),
                                            sequences * (load.num_drafts + 1)),
                      .logit_rows = sequences * (load.num_drafts + 1),
                      .num_drafts = load.num_drafts,
                      .engram = ranks.model().engram};
  if (plan.pp == 1) return rank_memory(ranks.whole(), rank, device).total();
  std::int64_t most = 0;
  for (std::int64_t stage = 0; stage < plan.pp; ++stage) {
    const RankModel& model = ranks.of(stage_of(ranks.model().config, plan, stage));
    most = std::max(most, rank_memory(model, rank, device).total());
  }
  return most;
}

double prefill_seconds(const PlanRanks& ranks, const ServingLoad& load, const DeviceProfile& device,
                       PrefillGroups groups) {
  const std::int64_t dp = ranks.plan().dp, prompt = load.prompt_tokens;
  const auto seconds_of_chunk = [&](std::int64_t begin, std::int64_t tokens) {
    const Workload work{.num_queries = dp,
                        .query_length = tokens,
                        .context_length = begin,
                        .active_groups = groups == PrefillGroups::kOne ? 1 : dp,
                        .bounded_replay = load.bounded_replay,
                        .prompt_behind = prompt - begin - tokens,
                        .imbalance = load.imbalance,
                        .hash_imbalance = load.hash_imbalance};
    return estimate_step(ranks, work, device).seconds;
  };
  // A chunk's time grows about evenly with what lies before it, among chunks of which all rows or none go
  // through the decoder half.
  const auto seconds_of = [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t tokens = end - begin, chunk = std::min(tokens, load.max_batch_tokens);
    if (tokens == 0) return 0.0;
    const double first = seconds_of_chunk(begin, chunk);
    if (tokens == chunk) return first;
    const double last = seconds_of_chunk(end - chunk, chunk);
    return static_cast<double>(tokens) / static_cast<double>(chunk) * (first + last) / 2;
  };
  auto found = static_cast<std::int64_t>(static_cast<double>(prompt) * load.prefix_cache_hit_rate);
  if (load.bounded_replay == 0) return seconds_of(found, prompt);
  const std::int64_t decoder_begin = decoder_begin_of(prompt, load.bounded_replay);
  found = std::min(found, decoder_begin);
  // The chunk that has the first rows of the decoder half.
  const std::int64_t begin = decoder_begin - (decoder_begin - found) % load.max_batch_tokens;
  const std::int64_t end = std::min(begin + load.max_batch_tokens, prompt);
  return seconds_of(found, begin) + seconds_of(begin, end) + seconds_of(end, prompt);
}

double tokens_per_step(const ServingLoad& load) { return decode_workload(load).tokens_per_step(); }

StepEstimate decode_step(const PlanRanks& ranks, const ServingLoad& load, const DeviceProfile& device) {
  return estimate_step(ranks, decode_workload(load), device);
}

DeploymentEstimate steady_state(const ServingLoad& load, double prefill_seconds, const StepEstimate& step) {
  const double tokens_a_step = tokens_per_step(load);
  const auto requests = static_cast<double>(load.concurrency);
  const auto reply = static_cast<double>(load.reply_tokens);
  DeploymentEstimate estimate{
      .prefill_seconds = prefill_seconds,
      .step_seconds = step.seconds,
      .tpot_seconds = step.seconds / tokens_a_step + (requests - 1) * prefill_seconds / reply,
      .requests_in_flight = requests,
      .memory_bytes = step.memory_bytes,
      .device_memory_bytes = step.device_memory_bytes};
  const double cycle = prefill_seconds + reply * estimate.tpot_seconds;
  estimate.requests_per_second = requests / cycle;
  // Prompts queue for the time that is theirs: a server of constant service time.
  const double busy = (requests - 1) * prefill_seconds / cycle;
  const double wait = prefill_seconds * busy / (2 * (1 - busy));
  estimate.ttft_seconds = prefill_seconds + wait + (requests > 1 ? step.seconds / 2 : 0);
  return estimate;
}

DeploymentEstimate estimate_deployment(const PlanRanks& ranks, const ServingLoad& load,
                                       const DeviceProfile& device) {
  ServingLoad running = load;
  std::int64_t low = 0, high = load.concurrency;  // the most requests that fit
  if (load.max_running > 0) high = std::min(high, load.max_running);
  while (low < high) {
    running.concurrency = low + (high - low + 1) / 2;
    if (deployment_memory_bytes(ranks, running, device) <= device.memory_bytes) {
      low = running.concurrency;
    } else {
      high = running.concurrency - 1;
    }
  }
  running.concurrency = std::max<std::int64_t>(1, low);
  DeploymentEstimate estimate =
      steady_state(running, prefill_seconds(ranks, running, device, PrefillGroups::kOne),
                   decode_step(ranks, running, device));
  estimate.memory_bytes = deployment_memory_bytes(ranks, running, device);
  const auto waiting = static_cast<double>(load.concurrency - running.concurrency);
  estimate.ttft_seconds += waiting / estimate.requests_per_second;
  return estimate;
}

}  // namespace baleen
