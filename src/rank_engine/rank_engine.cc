#include "rank_engine/rank_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "engine/engine_limits.h"
#include "moe/placement/expert_maps.h"
#include "moe/residence/expert_block.h"

namespace baleen {

namespace {

/// Of one expert of each block.
std::vector<std::int64_t> expert_bytes(const WeightTree& whole) {
  std::vector<std::int64_t> bytes;
  for (const BlockWeights& block : whole.blocks) {
    const ExpertWeights& expert = block.moe.routed.front();
    std::int64_t& sum = bytes.emplace_back(0);
    for (const ExpertBlock::Piece& piece : ExpertBlock(expert).pieces(expert)) sum += std::ssize(piece.bytes);
  }
  return bytes;
}

}  // namespace

RankEngine::RankEngine(std::unique_ptr<RankTeam> team, EngineOptions options)
    : team_(std::move(team)),
      options_(std::move(options)),
      num_open_(static_cast<std::size_t>(options_.parallel.dp)) {
  if (!options_.parallel.maps_by_layer) return;
  maps_ = baleen::expert_maps(options_.parallel, config(), options_.expert_table.get());
  if (!options_.balance.enabled) return;
  balancer_.emplace(options_.balance, std::move(maps_), expert_bytes(team_->first().whole_weights().tree()));
}

EngineLimits RankEngine::limits() const { return engine_limits(config(), options_); }

std::string RankEngine::memory_text() const {
  return fmt::format(
      "{} ({}); weights are views of the checkpoint's map but for {:.1f} MB of columns, copied; each "
      "rank:\n{}",
      team_->place(), to_text(options_.parallel), 1e-6 * static_cast<double>(team_->copied_weight_bytes()),
      to_text(plan()));
}

const RankReply& RankEngine::reply_of(const std::vector<RankReply>& replies, std::int64_t group) const {
  const ParallelPlan& plan = options_.parallel;
  return replies[static_cast<std::size_t>((plan.pp - 1) * plan.stage_ranks() + group * plan.group_ranks())];
}

template <class Call>
typename Call::Reply RankEngine::call_group(std::int64_t group, Call call) const {
  return reply_of(team_->call({std::move(call), group}), group).template to<Call>();
}

std::int64_t RankEngine::choose_group(std::span<const TokenId> prompt, std::int64_t begin,
                                      std::int64_t end) const {
  if (end - begin == 1) return begin;
  const auto open_in = [&](std::int64_t group) { return num_open_[static_cast<std::size_t>(group)]; };
  const std::int64_t least = *std::min_element(num_open_.begin() + begin, num_open_.begin() + end);
  // A cached prefix is worth a few more sequences in the group, not all of them.
  const std::int64_t most = least + std::max<std::int64_t>(1, least / 4);
  std::vector<std::int64_t> cached(static_cast<std::size_t>(num_groups()));
  if (options_.prefix_cache && !prompt.empty()) {
    const auto& replies = team_->call({calls::CachedTokens{.prompt = prompt}});
    for (std::int64_t group = begin; group < end; ++group)
      cached[static_cast<std::size_t>(group)] = reply_of(replies, group).to<calls::CachedTokens>().count;
  }
  std::int64_t best = -1;
  for (std::int64_t group = begin; group < end; ++group) {
    if (open_in(group) > most) continue;
    const auto cached_in = [&](std::int64_t g) { return cached[static_cast<std::size_t>(g)]; };
    const auto better = [&] {
      return std::pair(cached_in(group), -open_in(group)) > std::pair(cached_in(best), -open_in(best));
    };
    if (best < 0 || better()) best = group;
  }
  return best;
}

std::pair<SequenceId, std::int64_t> RankEngine::open_in(std::int64_t group, std::span<const TokenId> prompt,
                                                        std::int64_t decoder_begin) {
  const std::optional<SequenceId> own =
      call_group(group, calls::Open{.prompt = prompt, .decoder_begin = decoder_begin}).sequence;
  BALEEN_CHECK(own.has_value());  // each group has room for all sequences
  ++num_open_[static_cast<std::size_t>(group)];
  return {*own, call_group(group, calls::Length{.sequence = *own}).count};
}

void RankEngine::close_in(std::int64_t group, SequenceId own, bool keep) {
  call_group(group, calls::Close{.sequence = own, .keep = keep});
  --num_open_[static_cast<std::size_t>(group)];
}

std::optional<SequenceId> RankEngine::open(std::span<const TokenId> prompt, std::int64_t decoder_begin) {
  if (std::ssize(sequences_) == options_.max_sequences) return std::nullopt;
  const std::int64_t num_prefill = options_.parallel.prefill_groups;
  Sequence sequence{.group = choose_group(prompt, 0, num_prefill > 0 ? num_prefill : num_groups()),
                    .prompt_tokens = std::ssize(prompt),
                    .decoder_begin = decoder_begin};
  std::tie(sequence.own, sequence.length) = open_in(sequence.group, prompt, decoder_begin);
  if (num_prefill > 0) open_successor(sequence, prompt);
  sequence.opened_at = sequence.length;
  const auto id = static_cast<SequenceId>(next_id_++);
  sequences_.emplace(id, sequence);
  return id;
}

void RankEngine::keep_tail(SequenceId sequence, std::int64_t end) {
  const Sequence& one = sequences_.at(sequence);
  call_group(one.group, calls::KeepTail{.sequence = one.own, .end = end});
}

PrefixLookup RankEngine::lookup(SequenceId sequence) const {
  const Sequence& one = sequences_.at(sequence);
  return call_group(one.group, calls::Lookup{.sequence = one.own});
}

std::int64_t RankEngine::length(SequenceId sequence) const { return sequences_.at(sequence).length; }

bool RankEngine::reserve(SequenceId sequence, std::int64_t num_tokens) {
  // Room is wanted where the next step is computed.
  if (sequences_.at(sequence).prompt_ended) send_states({&sequence, 1});
  const Sequence& one = sequences_.at(sequence);
  return call_group(one.group, calls::Reserve{.sequence = one.own, .num_tokens = num_tokens}).found;
}

void RankEngine::truncate(SequenceId id, std::int64_t length) {
  Sequence& sequence = sequences_.at(id);
  if (sequence.successor && length < sequence.successor->num_pages * kPageTokens) drop_successor(sequence);
  call_group(sequence.group, calls::Truncate{.sequence = sequence.own, .length = length});
  sequence.length = length;
}

void RankEngine::share(SequenceId id) {
  Sequence& sequence = sequences_.at(id);
  call_group(sequence.group, calls::Share{.sequence = sequence.own});
  sequence.was_shared = true;
}

void RankEngine::close(SequenceId id, bool keep) {
  Sequence& sequence = sequences_.at(id);
  drop_successor(sequence);
  close_in(sequence.group, sequence.own, keep);
  sequences_.erase(id);
}

void RankEngine::fabricate_history(SequenceId id, std::int64_t num_positions) {
  Sequence& sequence = sequences_.at(id);
  // A history is the decode group's: there is nothing to compute.
  if (sequence.successor && sequence.length == 0) hand_over(sequence);
  call_group(sequence.group, calls::Fabricate{.sequence = sequence.own, .num_positions = num_positions});
  sequence.length += num_positions;
}

CacheUse RankEngine::cache_use() const {
  const auto& replies = team_->call({calls::UseOfCache{}});
  CacheUse sum;
  const auto add = [](PoolUse& to, const PoolUse& from) {
    to.total += from.total, to.free += from.free, to.cached += from.cached, to.in_use += from.in_use;
  };
  for (std::int64_t group = 0; group < num_groups(); ++group) {
    const CacheUse& use = reply_of(replies, group).to<calls::UseOfCache>();
    add(sum.pages, use.pages);
    add(sum.window_pages, use.window_pages);
    add(sum.state_slots, use.state_slots);
  }
  return sum;
}

std::vector<RadixNodeSummary> RankEngine::tree(std::size_t most_nodes) const {
  constexpr std::int64_t kGroupStride = std::int64_t{1} << 40;  // ids stay different
  const auto& replies = team_->call({calls::Tree{.most_nodes = most_nodes}});
  std::vector<RadixNodeSummary> all;
  for (std::int64_t group = 0; group < num_groups(); ++group) {
    for (RadixNodeSummary node : reply_of(replies, group).to<calls::Tree>()) {
      if (all.size() == most_nodes) return all;
      node.id += group * kGroupStride;
      if (node.parent >= 0) node.parent += group * kGroupStride;
      all.push_back(node);
    }
  }
  return all;
}

std::vector<std::vector<std::int64_t>> RankEngine::expert_load() {
  const auto& replies = team_->call({calls::ExpertLoad{}});
  const ParallelPlan& plan = options_.parallel;
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t block = 0; block < config().num_blocks(); ++block)
    all.emplace_back(static_cast<std::size_t>(config().num_routed_experts(block)));
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    // Ranks of a group route the same tokens, unless each keeps its own.
    const auto number = static_cast<std::int64_t>(rank);
    if (number % plan.group_ranks() > 0 && !plan.shares_rows()) continue;
    auto block = static_cast<std::size_t>(stage_of(config(), plan, number / plan.stage_ranks()).begin);
    for (const std::vector<std::int64_t>& row : replies[rank].to<calls::ExpertLoad>()) {
      std::ranges::transform(all[block], row, all[block].begin(), std::plus<>());
      ++block;
    }
  }
  return all;
}

std::optional<ExpertPlaceStats> RankEngine::expert_places() const {
  if (options_.device.is_cpu()) return std::nullopt;
  std::optional<ExpertPlaceStats> all;
  for (const RankReply& reply : team_->call({calls::ExpertPlaces{}})) {
    const std::optional<ExpertPlaceStats>& places = reply.to<calls::ExpertPlaces>();
    if (!places) continue;
    const auto& [placed, fetched, computed] = *places;
    if (!all) all = {.placed = {.num_blocks = 1, .num_slots = placed.num_slots}, .fetched = {}};
    all->placed.num_experts += placed.num_in_all();
    all->placed.num_on_host += placed.num_on_host;
    all->placed.num_on_disk += placed.num_on_disk;
    all->fetched += fetched;
    if (computed) all->computed = computed;  // of one rank alone
  }
  return all;
}

}  // namespace baleen
