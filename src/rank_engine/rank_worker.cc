#include "rank_engine/rank_worker.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "comm/meet.h"
#include "engine/fabricated_history.h"
#include "engine/finite_values.h"
#include "engine/page_traits.h"
#include "model/identity.h"

namespace baleen {
namespace {

/// None: all layers have the plan's.
std::vector<ExpertMap> layer_maps(const EngineOptions& options, const ModelConfig& config) {
  if (!options.parallel.maps_by_layer) return {};
  return expert_maps(options.parallel, config, options.expert_table.get());
}

/// With room for those that change their places.
std::int64_t weight_bytes(const WeightTree& tree, const EngineOptions& options) {
  return device_weight_bytes(tree) + (options.balance.enabled ? StagedExperts::bytes_for(tree) : 0);
}

/// Ranks that have batches of their own in each step, this one among them.
RankGroup ranks_with_batches(const RankLayout& layout) {
  return layout.plan().dp > 1 ? layout.stage_ranks() : RankGroup{.ranks = {layout.rank()}};
}

}  // namespace

RankWorker::RankWorker(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options,
                       RankLayout layout, Communicator& communicator, const PeerRank* peers,
                       std::shared_ptr<SharedEngramTables> host_tables)
    : whole_(std::move(weights)),
      options_(resolved(options, config())),
      layout_(std::move(layout)),
      rank_config_(rank_config(config(), layout_.plan(), layout_.stage())),
      weights_(
          std::make_unique<RankWeights>(config(), whole_->tree(), layout_, layer_maps(options_, config()))),
      model_(share(communicator, peers, std::move(host_tables)), options_),
      staged_experts_(open_staging()),
      runner_(model_, config(), options_),
      transfers_(open_transfers(communicator)) {
  // What was cut out of columns is on the device now, unless experts are still to come from the host.
  if (model_.copied_weights() != nullptr && !staged_experts_ && model_.experts() == nullptr) weights_.reset();
  if (!device().traits().shares_host_memory) {
    device().share_memory();
    meet(communicator);
  }
  runner_.capture_steps();
  model_.check_reads();
}

ModelShare RankWorker::share(Communicator& communicator, const PeerRank* peers,
                             std::shared_ptr<SharedEngramTables> host_tables) const {
  const WeightTree& tree = weights_->tree();
  if (tree.made != nullptr && options_.balance.enabled) {
    fail(
        "‹balancing› reads experts while ranks serve, and those of a GGUF file are made when they are "
        "loaded; "
        "leave it out, or write a checkpoint folder with `baleen convert`");
  }
  return {.rank = rank_config_,
          .weights = tree,
          .plan = plan_rank_memory(config(), weight_bytes(tree, options_), layout_, options_),
          .experts = movable_experts(rank_config_, tree, layout_.plan(), options_),
          .checkpoint = whole_->checkpoint(),
          .layout = layout_,
          .connection = {.communicator = &communicator, .peers = peers, .steps = ranks_with_batches(layout_)},
          .host_tables = std::move(host_tables)};
}

std::unique_ptr<StagedExperts> RankWorker::open_staging() const {
  DeviceWeights* const copy = model_.copied_weights();
  if (!options_.balance.enabled || copy == nullptr) return nullptr;
  Device& device = model_.device();
  return std::make_unique<StagedExperts>(copy->tree(), device.memory(), *device.background_copies());
}

std::unique_ptr<StateTransfers> RankWorker::open_transfers(Communicator& communicator) {
  if (layout_.plan().prefill_groups == 0) return nullptr;
  const auto& [begin, end, first, last] = layout_.stage();
  std::string identity =
      fmt::format("{} {}, layers {} to {}, heads {} of {}", page_traits(options_, device().traits()),
                  sampled_identity(whole_->checkpoint()), begin, end, layout_.tp_index(), layout_.plan().tp);
  return std::make_unique<StateTransfers>(sequences(), runner_.cache(), runner_.draft_head(), layout_,
                                          communicator, std::move(identity));
}

void RankWorker::meet(Communicator& communicator) const {
  meet_all(communicator, RankGroup::strided(0, 1, layout_.plan().num_devices, layout_.rank()));
}

void RankWorker::close(SequenceId sequence, bool keep) {
  sequences().close(sequence, keep);
  if (transfers_) transfers_->forget(sequence);
}

void RankWorker::fabricate_history(SequenceId sequence, std::int64_t num_positions) {
  baleen::fabricate_history(sequences(), runner_.cache(), rank_config_, options_.max_batch_tokens, sequence,
                            num_positions);
}

Result<StepOutput> RankWorker::compute(std::span<const StepInput> inputs, DecoderUse use) {
  const ConstActivations<3> streams = runner_.run(inputs, use);
  if (!layout_.stage().last) return StepOutput();
  const Result<ComputedStep> step = runner_.results(inputs, streams);
  if (!step) return Failure{step.error()};
  if (!step.value().is_finite) return not_numbers(config(), std::nullopt);
  return step.value().output;
}

Result<StepOutput> RankWorker::collect() {
  const ComputedStep step = runner_.collect();
  if (!step.is_finite) return not_numbers(config(), std::nullopt);
  return step.output;
}

Result<DraftOutput> RankWorker::draft(std::span<const DraftInput> inputs, std::int64_t depth) {
  if (auto wrong = check_drafts(inputs, depth)) return std::move(*wrong);
  runner_.foresee(inputs, depth);
  if (!layout_.stage().last) return DraftOutput();
  return runner_.draft(inputs, depth);
}

std::optional<Failure> RankWorker::stage_experts(std::span<const BlockExperts> experts) {
  BALEEN_CHECK(weights_ != nullptr && (model_.copied_weights() == nullptr || experts.size() <= 1));
  try {
    for (const BlockExperts& one : experts) weights_->stage(one);
    if (staged_experts_) {
      for (const ExpertChange& change : weights_->staged()) staged_experts_->stage(change);
    }
    return std::nullopt;
  } catch (const Error& error) {
    weights_->drop_staged();
    return Failure{error.what()};
  } catch (const std::bad_alloc&) {
    weights_->drop_staged();
    return failure("rank {} has no memory for other experts", layout_.rank());
  }
}

void RankWorker::place_experts() {
  if (staged_experts_) staged_experts_->place();
  weights_->place_staged();
}

void RankWorker::drop_experts() {
  if (staged_experts_) staged_experts_->drop();
  weights_->drop_staged();
}

}  // namespace baleen
