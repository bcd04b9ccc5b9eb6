// An engine's parts, their memory, and its sequences.

#include "engine/engine.h"

#include <algorithm>

#include "base/check.h"
#include "base/progress.h"
#include "device/make_device.h"
#include "engine/engine_limits.h"
#include "engine/expert_memory.h"
#include "hardware/instruction_sets.h"
#include "model/identity.h"
#include "ops/gather_rows/gather_rows.h"
#include "ops/sample/sample.h"
#include "tensor/captured_rows.h"

namespace baleen {

namespace {

/// Changes when pages of the same tokens get other bytes.
constexpr int kPageLayoutVersion = 1;

MovableExperts movable_experts(const EngineOptions& options, const ModelWeights& weights,
                               const EngineRank& rank, const RankWeights* share) {
  const ModelConfig& config = weights.config();
  if (share == nullptr) return movable_experts(config, detect_formats(config, weights.checkpoint()), options);
  return movable_experts(stage_config(config, rank.layout.stage()), share->tree(), rank.layout.plan(),
                         options);
}

/// Also changes the plan where weights do not fit on the device. `share`: of a rank among others.
std::unique_ptr<Device> make_planned_device(const EngineOptions& options, const ModelWeights& weights,
                                            const EngineRank& rank, const RankWeights* share,
                                            MemoryPlan& plan) {
  const RankLayout& layout = rank.layout;
  const DeviceConnection connection{
      .communicator = rank.communicator,
      .peers = rank.peers,
      .steps = layout.plan().dp > 1 ? layout.stage_ranks() : RankGroup{.ranks = {layout.rank()}}};
  std::unique_ptr<Device> device =
      make_device(options.device, {.num_threads = options.num_threads,
                                   .scratch_bytes = plan.scratch_bytes,
                                   .max_rows = options.max_batch_tokens,
                                   .max_sequences = options.max_sequences,
                                   .max_pages = plan.max_table_pages,
                                   .two_batches = layout.plan().dual_batch_overlap,
                                   .forced_variants = options.forced_variants,
                                   .connection = connection});
  if (auto failed = leave_experts_to_host(plan, movable_experts(options, weights, rank, share), options,
                                          device->free_bytes())) {
    fail("{}", failed->message);
  }
  // In host memory pages become resident one by one; all else is used by the first large step.
  const std::int64_t wanted =
      plan.total_bytes() - (device->traits().shares_host_memory ? plan.page_bytes : 0);
  if (const std::int64_t free_bytes = device->free_bytes(); wanted > free_bytes) {
    fail(
        "this needs {:.2f} GB of {}, where {:.2f} GB are free:\n{}try a smaller --context, --chunk or "
        "--max-sequences",
        1e-9 * static_cast<double>(wanted), device->name(), 1e-9 * static_cast<double>(free_bytes),
        to_text(plan));
  }
  return device;
}

/// None: all layers have the plan's.
std::vector<ExpertMap> layer_maps(const EngineOptions& options, const ModelConfig& config) {
  if (!options.parallel.maps_by_layer) return {};
  return expert_maps(options.parallel, config, options.expert_table.get());
}

/// With room for those that change their places.
std::int64_t rank_weight_bytes(const WeightTree& tree, const EngineOptions& options) {
  return device_weight_bytes(tree) + (options.balance.enabled ? StagedExperts::bytes_for(tree) : 0);
}

std::unique_ptr<DeviceWeights> on_device(const WeightTree& weights, const MemoryPlan& plan, Device& device) {
  if (device.traits().shares_host_memory) return nullptr;
  const bool has_store = plan.experts.num_blocks > 0;
  return std::make_unique<DeviceWeights>(weights, device.memory(),
                                         has_store ? RoutedExperts::kElsewhere : RoutedExperts::kCopied);
}

/// Routed experts in two memories, which `tree` reads from now on; null where the plan has them in one.
std::unique_ptr<ExpertStore> in_two_memories(const WeightTree& weights, WeightTree& tree,
                                             const MemoryPlan& plan, Device& device) {
  if (plan.experts.num_blocks == 0) return nullptr;
  auto store = std::make_unique<ExpertStore>(weights.blocks, plan.experts, device.memory(),
                                             device.host_visible_memory(), device.background_copies());
  store->bind(tree);
  return store;
}

}  // namespace

bool all_finite(const ConstActivations<2>& values) {
  const auto size = static_cast<std::size_t>(values.size());
  if (values.element_type() == ElementType::kBf16) {
    constexpr unsigned kExponent = 0x7F80;
    return std::ranges::none_of(std::span(values.bf16().data(), size),
                                [](Bf16Bits bits) { return (bits & kExponent) == kExponent; });
  }
  // x - x is 0 for every finite x and NaN otherwise; a sum of such differences vectorises, a branch does not.
  float sum = 0.0F;
  for (const float value : std::span(values.data(), size)) sum += value - value;
  return sum == 0.0F;
}

ConstActivations<3> Engine::stacked(const ConstActivations<2>& streams) const {
  return streams.reshaped<3>({streams.extent(0), config().hc_mult, config().hidden_size});
}

Engine::Engine(const std::filesystem::path& folder, const EngineOptions& options)
    : Engine(std::make_unique<ModelWeights>(folder), options) {}

Engine::Engine(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options, EngineRank rank)
    : weights_(std::move(weights)),
      options_(resolved(options, config())),
      rank_(std::move(rank)),
      rank_config_(rank_.is_alone() ? config()
                                    : rank_config(config(), rank_.layout.plan(), rank_.layout.stage())),
      rank_weights_(rank_.is_alone() ? nullptr
                                     : std::make_unique<RankWeights>(config(), weights_->tree(), rank_.layout,
                                                                     layer_maps(options_, config()))),
      plan_(rank_.is_alone()
                ? plan_memory(config(), detect_formats(config(), weights_->checkpoint()), options_)
                : plan_rank_memory(config(), rank_weight_bytes(rank_weights_->tree(), options_), rank_.layout,
                                   options_)),
      device_(make_planned_device(options_, *weights_, rank_, rank_weights_.get(), plan_)),
      device_weights_(on_device(rank_weights_ ? rank_weights_->tree() : weights_->tree(), plan_, *device_)),
      expert_store_(device_weights_
                        ? in_two_memories(rank_weights_ ? rank_weights_->tree() : weights_->tree(),
                                          device_weights_->tree(), plan_, *device_)
                        : nullptr),
      staged_experts_(options_.balance.enabled && device_weights_
                          ? std::make_unique<StagedExperts>(device_weights_->tree(), device_->memory(),
                                                            *device_->background_copies())
                          : nullptr),
      cache_(cache_geometry(rank_config_, options_), plan_.capacity, device_->memory()),
      disk_(open_disk()),
      sequences_(cache_, options_.reserved_tails),
      arena_(plan_.activation_bytes + plan_.logit_bytes, device_->memory()),
      forward_(rank_config_, device_tree(), *device_, cache_, options_.precision, buffered_rows(options_),
               arena_, rank_.layout),
      host_arena_(plan_.host_logit_bytes, device_->host_visible_memory()),
      queued_choices_(std::int64_t{kMaxQueued} * options_.max_logit_rows * std::int64_t{sizeof(TokenId)},
                      device_->host_visible_memory()) {
  take_disk();
  // What was cut out of columns is on the device now, unless experts are still to come from the host.
  if (device_weights_ != nullptr && staged_experts_ == nullptr && experts() == nullptr) rank_weights_.reset();
  if (rank_.layout.plan().dual_batch_overlap) forward_.overlap_batches(options_.overlap);
  forward_.set_experts(experts());
  if (experts() != nullptr) experts()->set_guessing(options_.fetch_ahead);
  allocate_activations();
  if (!rank_.is_alone() && !device_->traits().shares_host_memory) {
    device_->share_memory();
    meet();
  }
  if (rank_.layout.plan().prefill_groups > 0) {
    const auto& [begin, end, first, last] = rank_.layout.stage();
    const std::string identity = fmt::format("{} {}, layers {} to {}, heads {} of {}", page_traits(),
                                             sampled_identity(weights_->checkpoint()), begin, end,
                                             rank_.layout.tp_index(), rank_.layout.plan().tp);
    transfers_ = std::make_unique<StateTransfers>(sequences_, cache_, draft_head_.get(), rank_, identity);
  }
  capture_steps();
  check_reads();
}

const WeightTree& Engine::device_tree() const {
  if (device_weights_) return device_weights_->tree();
  return rank_weights_ ? rank_weights_->tree() : weights_->tree();
}

std::string Engine::page_traits() const {
  const DeviceTraits& traits = device_->traits();
  std::string kernels(traits.shares_host_memory ? instruction_set_in_use() : traits.architecture);
  for (const ForcedVariant& forced : options_.forced_variants)
    kernels += fmt::format(" {}={}", forced.operation, forced.variant);
  return fmt::format("layout {} {} {} {}", kPageLayoutVersion, precision_name(options_.precision), kernels,
                     options_.drafts ? options_.draft_head->name : "main");
}

std::unique_ptr<IdentifiedDisk> Engine::open_disk() const {
  if (!options_.disk) return nullptr;
  return std::make_unique<IdentifiedDisk>(*options_.disk, weights_->checkpoint(), page_traits(),
                                          cache_.geometry());
}

void Engine::take_disk() {
  if (!disk_) return;
  if (DiskTier* const tier = disk_->arrived()) sequences_.attach(*tier);
}

std::optional<DiskTierStats> Engine::disk_stats() const {
  return disk_ ? std::optional(disk_->stats()) : std::nullopt;
}

void Engine::allocate_activations() {
  const ModelConfig& c = config();
  const ElementType type = device_->traits().activation_type;
  const auto streams = [&](std::int64_t num_rows) {
    return Activations<2>(arena_.allocate<std::byte>(num_rows * c.hc_dim() * size_of(type)), type,
                          {num_rows, c.hc_dim()});
  };
  const auto logits = [&] {
    return Activations<2>(arena_.allocate<float>(options_.max_logit_rows * c.vocab_size),
                          {options_.max_logit_rows, c.vocab_size});
  };
  const auto host_logits = [&] {
    return plan_.host_logit_bytes == 0 ? nullptr
                                       : host_arena_.allocate<float>(options_.max_logit_rows * c.vocab_size);
  };
  wanted_streams_ = streams(options_.max_logit_rows);
  if (rank_.layout.plan().shares_rows())
    all_streams_ = streams(device_->traits().padded_rows(options_.max_batch_tokens));
  chosen_ = {arena_.allocate<TokenId>(options_.max_logit_rows),
             static_cast<std::size_t>(options_.max_logit_rows)};
  logits_ = logits();
  host_logits_ = host_logits();
  if (options_.drafts) {
    draft_logits_ = logits();
    host_draft_logits_ = host_logits();
    draft_head_ = options_.draft_head->make({.config = rank_config_,
                                             .weights = device_tree(),
                                             .device = *device_,
                                             .forward = forward_,
                                             .cache = cache_,
                                             .layout = rank_.layout,
                                             .precision = options_.precision,
                                             .sizes = draft_sizes(options_),
                                             .arena = arena_,
                                             .all_streams = all_streams_,
                                             .wanted_streams = wanted_streams_});
  }
  // The plan is a promise: what was reserved is what was computed.
  BALEEN_CHECK_EQ(arena_.peak_bytes(), plan_.activation_bytes + plan_.logit_bytes);
}

std::span<const TokenId> Engine::choose(const Activations<2>& logits, std::span<const SampleRow> draws) {
  const std::span<TokenId> ids = chosen_.first(draws.size());
  device_->execute<ops::Sample>({.logits = logits, .rows = draws, .ids = ids});
  host_chosen_.resize(draws.size());
  device_->memory().download(std::as_writable_bytes(std::span(host_chosen_)),
                             reinterpret_cast<const std::byte*>(ids.data()));
  device_->check_messages();
  return host_chosen_;
}

void Engine::capture_steps() {
  const DeviceTraits& traits = device_->traits();
  if (!traits.replays()) return;
  const std::int64_t most_rows = std::min({options_.max_sequences * (1 + options_.max_draft_tokens),
                                           options_.max_batch_tokens, traits.max_replayed_rows});
  std::vector<std::int64_t> sizes;
  for (std::int64_t rows = 1; rows <= most_rows; ++rows) {
    if (sizes.empty() || traits.padded_rows(rows) > sizes.back()) sizes.push_back(traits.padded_rows(rows));
  }
  Progress progress("capturing steps", "sizes", static_cast<std::int64_t>(sizes.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    forward_.capture(sizes[i]);
    if (draft_head_) draft_head_->capture(sizes[i]);
    progress.update(static_cast<std::int64_t>(i + 1));
  }
}

void Engine::gather(ConstActivations<2> from, std::span<const RowPair> pairs, Activations<2> to) {
  if (!pairs.empty()) device_->execute<ops::GatherRows>({.from = from, .pairs = pairs, .to = to});
}

ConstActivations<2> Engine::read_back(const Activations<2>& logits, float* host_copy) {
  if (host_copy == nullptr) return logits;
  device_->memory().download(
      std::as_writable_bytes(std::span(host_copy, static_cast<std::size_t>(logits.size()))),
      logits.address());
  device_->check_messages();
  return {host_copy, logits.extents()};
}

EngineLimits Engine::limits() const { return engine_limits(config(), options_); }

std::optional<SequenceId> Engine::open(std::span<const TokenId> prompt) {
  take_disk();
  return sequences_.open(prompt);
}
void Engine::keep_tail(SequenceId sequence, std::int64_t end) { sequences_.keep_tail(sequence, end); }
PrefixLookup Engine::lookup(SequenceId sequence) const { return sequences_.lookup(sequence); }
std::int64_t Engine::length(SequenceId sequence) const { return sequences_.length(sequence); }
bool Engine::reserve(SequenceId sequence, std::int64_t num_tokens) {
  return sequences_.reserve(sequence, num_tokens);
}
void Engine::truncate(SequenceId sequence, std::int64_t length) { sequences_.truncate(sequence, length); }

void Engine::share(SequenceId sequence) { sequences_.share(sequence); }
void Engine::close(SequenceId sequence, bool keep) {
  sequences_.close(sequence, keep);
  if (transfers_) transfers_->forget(sequence);
}

CacheUse Engine::cache_use() const { return sequences_.cache_use(); }
std::vector<RadixNodeSummary> Engine::tree(std::size_t most_nodes) const {
  return sequences_.tree(most_nodes);
}

}  // namespace baleen
