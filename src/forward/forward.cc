#include "forward/forward.h"

#include <algorithm>

#include "base/check.h"
#include "ops/operations.h"
#include "ops/rope/rope_frequencies.h"

namespace baleen {
namespace {

std::size_t index_of(RopeKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

StepShape step_shape(const ModelConfig& config, std::int64_t max_rows, std::int64_t max_logit_rows,
                     std::int64_t max_sequences, std::int64_t max_positions) {
  return {.max_rows = max_rows,
          .max_logit_rows = max_logit_rows,
          .max_sequences = max_sequences,
          .max_positions = max_positions,
          .hidden_size = config.hidden_size,
          .hc_mult = config.hc_mult,
          .num_attention_heads = config.num_attention_heads,
          .head_dim = config.head_dim,
          .q_lora_rank = config.q_lora_rank,
          .o_groups = config.o_groups,
          .group_dim = config.group_dim(),
          .o_dim = config.o_dim(),
          .index_n_heads = config.index_n_heads,
          .index_head_dim = config.index_head_dim,
          .index_topk = config.index_topk,
          .n_routed_experts = config.n_routed_experts,
          .num_experts_per_tok = config.num_experts_per_tok,
          .moe_intermediate_size = config.moe_intermediate_size,
          .vocab_size = config.vocab_size};
}

Forward::Forward(const ModelConfig& config, const WeightTree& weights, Device& device, const KvCache& cache,
                 Precision precision, std::int64_t max_rows, Arena& arena, RankLayout layout)
    : config_(config),
      weights_(weights),
      device_(device),
      cache_(cache),
      precision_(precision),
      layout_(std::move(layout)),
      buffers_(config_, device.traits().padded_rows(max_rows), device.traits().activation_type, arena),
      messages_(config_, layout_, device.traits().padded_rows(max_rows), device.traits().activation_type,
                device.memory()) {
  const RopeScaling& scaling = config_.rope_scaling;
  const YarnParams yarn{static_cast<float>(scaling.factor), scaling.original_max_position_embeddings,
                        static_cast<float>(scaling.beta_fast), static_cast<float>(scaling.beta_slow)};
  const auto rotary_dim = static_cast<int>(config_.qk_rope_head_dim);
  const auto upload = [&](RopeKind kind, double base, const YarnParams* scaled) {
    const std::vector<float> values = rope_frequencies(static_cast<float>(base), rotary_dim, scaled);
    device_.memory().upload(reinterpret_cast<std::byte*>(buffers_.frequencies[index_of(kind)]),
                            std::as_bytes(std::span(values)));
  };
  upload(RopeKind::kPlain, config_.rope_theta, nullptr);
  upload(RopeKind::kScaled, config_.compress_rope_theta,
         scaling.original_max_position_embeddings > 0 ? &yarn : nullptr);
}

std::span<const float> Forward::frequencies(RopeKind kind) const {
  return {buffers_.frequencies[index_of(kind)], static_cast<std::size_t>(config_.qk_rope_head_dim / 2)};
}

std::vector<std::vector<std::int64_t>> Forward::expert_load() const {
  std::vector<std::vector<std::int64_t>> load(
      static_cast<std::size_t>(config_.num_blocks()),
      std::vector<std::int64_t>(static_cast<std::size_t>(config_.n_routed_experts)));
  for (std::size_t block = 0; block < load.size(); ++block) {
    device_.memory().download(
        std::as_writable_bytes(std::span(load[block])),
        reinterpret_cast<const std::byte*>(buffers_.expert_load + block * load[block].size()));
  }
  return load;
}

void Forward::prepare_angles(const Step& step) {
  for (const RopeKind kind : {RopeKind::kPlain, RopeKind::kScaled}) {
    device_.execute<ops::RopeAngles>({.frequencies = frequencies(kind),
                                      .batch = step.batch,
                                      .cosine = rows(buffers_.cosine[index_of(kind)], step.rows.num_rows),
                                      .sine = rows(buffers_.sine[index_of(kind)], step.rows.num_rows)});
  }
}

void Forward::share_rows(const Step& step) {
  num_rows_ = step.rows.num_rows;
  kept_rows_ = layout_.kept_rows(num_rows_);
  dispatched_rows_ = even_rows(num_rows_, layout_.plan().group_ranks());
  output_shares_ = layout_.output_shares(num_rows_ * layout_.output_row_groups());
  attending_ = layout_.attending(num_rows_);
  attending_batch_ = layout_.plan().cp > 1 ? rows_of(step.batch, attending_, attending_slices_)
                                           : BatchPart{.batch = step.batch};
}

void Forward::begin_main(const Step& step, const Activations<3>& streams) {
  prepare_angles(step);
  if (layout_.stage().first) {
    device_.execute<ops::Embed>({.tokens = kept_tokens(step),
                                 .first_row = kept_rows().begin,
                                 .table = weights_.embedding,
                                 .out = streams});
  } else {
    device_.execute<ops::Receive>({.pair = &layout_.previous_stage(), .y = streams});
  }
}

Activations<3> Forward::run_main(const Step& step) {
  share_rows(step);
  const Activations<3> streams = rows(buffers_.streams, kept_rows().size());
  begin_main(step, streams);
  run_blocks({0, config_.num_hidden_layers, step, streams});
  if (!layout_.stage().last) {
    device_.execute<ops::Send>(
        {.pair = &layout_.next_stage(), .num_ranks = layout_.plan().num_devices, .x = streams});
  }
  return streams;
}

std::span<const TokenId> Forward::kept_tokens(const Step& step) const {
  const RowRange kept = kept_rows();
  return step.rows.tokens.subspan(static_cast<std::size_t>(kept.begin),
                                  static_cast<std::size_t>(kept.size()));
}

Activations<3> Forward::run_drafts(const Step& step, const DraftRun& drafts) {
  share_rows(step);
  const std::int64_t num_rows = kept_rows().size();
  const Activations<3> streams = rows(buffers_.draft_streams, num_rows);
  prepare_angles(step);
  device_.executor().enter_block(drafts.begin);
  // The first block has not begun: what its attention returns has no value yet.
  drafts.enter(
      {.tokens = kept_tokens(step),
       .kept = kept_rows(),
       .streams = streams,
       .stream_values = rows(buffers_.entry_streams, num_rows),
       .values = {rows(buffers_.entry_values, num_rows), rows(buffers_.block.attention.f, num_rows)}});
  run_blocks({drafts.begin, drafts.end, step, streams});
  return streams;
}

Activations<3> Forward::run(const RaggedBatch& batch) {
  if (cuts(batch)) return run_cut(batch, {});
  return run_step({batch, device_.batches().begin(batch)});
}

Activations<3> Forward::run(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  if (cuts(batch)) return run_cut(batch, chosen);
  return run_step({batch, device_.batches().begin(batch, chosen)});
}

RowRange Forward::returned_rows(const Step& step) const {
  return layout_.plan().shares_rows() ? kept() : RowRange{0, step.batch.num_rows()};
}

Activations<3> Forward::gathered(ConstActivations<3> own, const Activations<3>& all) {
  const auto flat = [](const auto& streams) {
    return streams.template reshaped<2>({streams.extent(0), streams.extent(1) * streams.extent(2)});
  };
  const Activations<3> to = rows(all, num_rows_);
  const std::vector<RowRange> shares = layout_.kept_rows(num_rows_);
  device_.execute<ops::AllGather>({.group = &layout_.group(), .x = flat(own), .rows = shares, .y = flat(to)});
  return to;
}

Activations<3> Forward::run_step(const Step& step) {
  BALEEN_CHECK_LE(step.rows.num_rows, buffers_.streams.extent(0));
  num_rows_ = step.rows.num_rows;
  if (observer_ != nullptr) {
    static_cast<void>(run_main(step));  // a repeated step would not call the observer
  } else {
    device_.steps().run(StepPart::kMain, [&] { static_cast<void>(run_main(step)); });
  }
  return rows(buffers_.streams, returned_rows(step).size());
}

Activations<3> Forward::run_drafts(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                   const DraftRun& drafts) {
  BALEEN_CHECK_LE(batch.num_rows(), buffers_.streams.extent(0));
  const Step step{batch, device_.batches().begin(batch, chosen)};
  num_rows_ = step.rows.num_rows;
  device_.steps().run(StepPart::kDraft, [&] { static_cast<void>(run_drafts(step, drafts)); });
  return rows(buffers_.draft_streams, returned_rows(step).size());
}

void Forward::capture(std::int64_t num_rows) {
  device_.steps().capture(StepPart::kMain, num_rows, [&](const StepRows& padding) {
    static_cast<void>(run_main({{}, padding}));
  });
  const bool cuts = halves_[0] != nullptr && stream_copies_.empty() && overlap_.least_decode_rows > 0 &&
                    num_rows >= std::max<std::int64_t>(overlap_.least_decode_rows, 2);
  if (cuts) capture_halves(device_.traits().padded_rows((num_rows + 1) / 2));
}

void Forward::capture_drafts(std::int64_t num_rows, const DraftRun& drafts) {
  device_.steps().capture(StepPart::kDraft, num_rows, [&](const StepRows& padding) {
    if (drafts.begin < drafts.end) static_cast<void>(run_drafts({{}, padding}, drafts));
  });
}

void Forward::logits(ConstActivations<3> streams, const HcWeights& mixing, std::span<const float> norm,
                     Activations<2> out) {
  const std::int64_t num_rows = out.extent(0);
  head_rows_ = layout_.kept_rows(num_rows);
  const RowRange kept = head_rows_[static_cast<std::size_t>(layout_.group_index())];
  BALEEN_CHECK_EQ(streams.extent(0), kept.size());
  const Activations<2> all = rows(buffers_.head_u, num_rows), y = all.slice(kept.begin, kept.end);
  const Activations<2> entered = buffers_.head_entered.slice(kept.begin, kept.end);
  device_.executor().enter_block(-1);
  device_.execute<ops::HcHead>({.streams = streams,
                                .weights = mixing,
                                .norm_eps = static_cast<float>(config_.rms_norm_eps),
                                .hc_eps = static_cast<float>(config_.hc_eps),
                                .precision = precision_,
                                .y = entered});
  device_.execute<ops::RmsNorm>({.x = entered,
                                 .weight = norm,
                                 .eps = static_cast<float>(config_.rms_norm_eps),
                                 .precision = precision_,
                                 .y = y});
  if (layout_.plan().shares_rows()) gather_rows_of(all, head_rows_);
  project_vocabulary(all, out);
}

void Forward::project_vocabulary(ConstActivations<2> x, Activations<2> out) {
  if (layout_.vocabulary().size() == 1) {
    device_.execute<ops::LmHead>({.x = x, .weight = &weights_.head, .logits = out});
    return;
  }
  const Activations<2> part = rows(messages_.logits, x.extent(0), weights_.head.rows);
  device_.execute<ops::LmHead>({.x = x, .weight = &weights_.head, .logits = part});
  device_.execute<ops::AllGather>({.group = &layout_.vocabulary(), .x = part, .rows = {}, .y = out});
}

void Forward::logits(ConstActivations<3> streams, Activations<2> out) {
  logits(streams, weights_.hc_head, weights_.norm, out);
}

}  // namespace baleen
