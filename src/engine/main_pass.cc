#include "engine/main_pass.h"

#include "engine/engine_limits.h"
#include "engine/finite_values.h"
#include "ops/gather_rows/gather_rows.h"

namespace baleen {

MainPass::MainPass(DeviceModel& model, const KvCache& cache, const EngineOptions& options, Arena& arena)
    : model_(model),
      forward_(model.rank(), model.weights(), model.device(), cache, options.precision,
               buffered_rows(options), arena, model.layout()),
      wanted_streams_(allocate_streams(options.max_logit_rows, arena)),
      wanted_mixing_(allocate_mixing(options.max_logit_rows, arena)) {
  const ParallelPlan& plan = model.layout().plan();
  if (plan.shares_rows()) {
    const DeviceTraits& traits = model.device().traits();
    all_streams_ = allocate_streams(traits.padded_rows(options.max_batch_tokens), arena);
    all_mixing_ = allocate_mixing(traits.padded_rows(options.max_batch_tokens), arena);
  }
  if (plan.dual_batch_overlap) forward_.overlap_batches(options.overlap);
  forward_.set_experts(model.experts());
  forward_.set_engram(model.engram());
  forward_.set_expert_sums(model.expert_sums());
}

Activations<2> MainPass::allocate_streams(std::int64_t num_rows, Arena& arena) const {
  const std::int64_t width = model_.config().hc_dim();
  const ElementType type = model_.device().traits().activation_type;
  return {arena.allocate<std::byte>(num_rows * width * size_of(type)), type, {num_rows, width}};
}

Activations<2> MainPass::allocate_mixing(std::int64_t num_rows, Arena& arena) const {
  const ModelConfig& c = model_.config();
  if (!c.lags_mixing()) return {};
  return {arena.allocate<float>(num_rows * c.hc_mult), {num_rows, c.hc_mult}};
}

std::int64_t MainPass::buffer_bytes(const ModelConfig& config, std::int64_t logit_rows,
                                    std::int64_t shared_rows, ElementType type) {
  std::int64_t bytes = 0;
  for (const std::int64_t num_rows : {logit_rows, shared_rows}) {
    bytes += Arena::bytes_for<std::byte>(num_rows * config.hc_dim() * size_of(type));
    if (config.lags_mixing()) bytes += Arena::bytes_for<float>(num_rows * config.hc_mult);
  }
  return bytes;
}

ConstActivations<3> MainPass::stacked(const ConstActivations<2>& streams) const {
  const ModelConfig& c = model_.config();
  return streams.reshaped<3>({streams.extent(0), c.hc_mult, c.hidden_size});
}

ConstActivations<3> MainPass::run(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                  const std::optional<DecoderRows>& decoder) {
  if (!decoder) return all_rows(forward_.run(batch, chosen));
  const ConstActivations<3> streams = forward_.run(batch, chosen, *decoder);
  return decoder->any ? all_rows(streams) : streams;
}

ConstActivations<3> MainPass::all_rows(const ConstActivations<3>& kept) {
  const RankLayout& layout = model_.layout();
  if (!layout.plan().shares_rows() || !layout.stage().last) return kept;
  const ModelConfig& c = model_.config();
  return forward_.gathered(kept,
                           all_streams_.reshaped<3>({all_streams_.extent(0), c.hc_mult, c.hidden_size}));
}

ConstActivations<2> MainPass::left_mixing() {
  const Activations<2> kept = forward_.left_mixing();
  // A rank that keeps no rows of the step takes part in the message all the same.
  return all_mixing_.empty() ? ConstActivations<2>(kept) : forward_.gathered(kept, all_mixing_);
}

void MainPass::logits(ConstActivations<3> streams, std::span<const std::int64_t> rows, Activations<2> out) {
  if (rows.empty()) return;
  std::vector<RowPair> pairs;
  for (const std::int64_t row : rows)
    pairs.push_back({static_cast<std::int32_t>(row), static_cast<std::int32_t>(pairs.size())});
  const ConstActivations<2> flat =
      streams.reshaped<2>({streams.extent(0), streams.extent(1) * streams.extent(2)});
  model_.device().execute<ops::GatherRows>({.from = flat, .pairs = pairs, .to = wanted_streams_});
  const RowRange kept = model_.layout().kept(std::ssize(rows));
  const ConstActivations<2> left = left_mixing();
  if (!left.empty())
    model_.device().execute<ops::GatherRows>({.from = left, .pairs = pairs, .to = wanted_mixing_});
  forward_.logits(stacked(wanted_streams_.slice(kept.begin, kept.end)),
                  left.empty() ? left : wanted_mixing_.slice(kept.begin, kept.end), out);
}

std::optional<std::int64_t> MainPass::first_bad_block(const RaggedBatch& batch,
                                                      const std::optional<DecoderRows>& decoder,
                                                      std::span<const std::int64_t> rows) {
  struct Search {
    const Forward& forward;
    Memory& memory;
    std::span<const std::int64_t> wanted_rows;
    const std::optional<DecoderRows>& halves;
    std::int64_t first_layer;
    std::optional<std::int64_t> bad_block;
  } search{forward_, model_.device().memory(), rows, decoder, model_.layout().stage().begin, std::nullopt};
  forward_.observe_blocks(
      [](void* context, std::int64_t block, ConstActivations<3> streams) {
        auto& [forward, memory, wanted_rows, halves, first_layer, bad_block] = *static_cast<Search*>(context);
        if (bad_block) return;
        const RowRange kept = forward.kept();
        std::vector<std::byte> row(
            static_cast<std::size_t>(streams.stride(0) * size_of(streams.element_type())));
        for (std::int64_t wanted : wanted_rows) {
          if (halves && first_layer + block < halves->begin)
            wanted = halves->rows[static_cast<std::size_t>(wanted)].from;
          if (wanted < kept.begin || wanted >= kept.end) continue;
          const std::int64_t own = wanted - kept.begin;
          memory.download(row, streams.slice(own, own + 1).address());
          const ConstActivations<2> values(row.data(), streams.element_type(), {1, streams.stride(0)});
          if (!all_finite(values)) bad_block = block;
        }
      },
      &search);
  static_cast<void>(decoder ? forward_.run(batch, {}, *decoder) : forward_.run(batch));
  forward_.observe_blocks(nullptr, nullptr);
  if (!search.bad_block) return std::nullopt;
  return search.first_layer + *search.bad_block;
}

std::vector<std::vector<std::int64_t>> MainPass::own_expert_load() const {
  std::vector<std::vector<std::int64_t>> load = expert_load();
  for (std::size_t block = 0; block < load.size(); ++block) {
    const MoeWeights& moe = model_.weights().blocks[block].moe;
    const ExpertRanks placement = model_.layout().experts(std::ssize(load[block]), moe.map.get());
    std::vector<std::int64_t> own;
    for (std::int64_t local = 0; local < std::ssize(moe.routed); ++local)
      own.push_back(load[block][static_cast<std::size_t>(placement.logical(local))]);
    load[block] = std::move(own);
  }
  return load;
}

}  // namespace baleen
