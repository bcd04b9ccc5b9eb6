#include "forward/forward.h"

#include <algorithm>

#include "base/check.h"
#include "ops/operations.h"
#include "tensor/unbacked_memory.h"

namespace baleen {
namespace {

/// One array for two uses, which never meet: of the output projection and of the experts.
Activations<2> partial_sums(const RankConfig& rank, const RankLayout& layout, MessageArrays& arrays) {
  const std::int64_t num_rows =
      std::max(output_sum_rows(layout, arrays.max_rows()), expert_sum_rows(rank, layout, arrays.max_rows()));
  return num_rows == 0 ? Activations<2>() : arrays.floats(num_rows, rank.model().hidden_size);
}

/// The arrays of parts of the pass, only to count them.
template <class... Arrays>
void lay_out(auto&... arguments) {
  (static_cast<void>(Arrays(arguments...)), ...);
}

}  // namespace

StepShape step_shape(const RankConfig& rank, std::int64_t max_rows, std::int64_t max_logit_rows,
                     std::int64_t max_sequences, std::int64_t max_positions) {
  const ModelConfig& config = rank.model();
  return {.max_rows = max_rows,
          .max_logit_rows = max_logit_rows,
          .max_sequences = max_sequences,
          .max_positions = max_positions,
          .hidden_size = config.hidden_size,
          .draft_input_size = rank.num_draft_blocks() > 0 ? config.draft_input_size() : 0,
          .engram_values = config.engram ? config.engram->num_hashes() * config.engram->head_dim : 0,
          .hc_mult = config.hc_mult,
          .num_attention_heads = rank.num_attention_heads(),
          .head_dim = config.head_dim,
          .q_lora_rank = config.q_lora_rank,
          .o_groups = rank.o_groups(),
          .group_dim = rank.group_dim(),
          .o_dim = rank.o_dim(),
          .index_n_heads = config.index_n_heads,
          .index_head_dim = config.index_head_dim,
          .index_topk = config.index_topk,
          .candidate_topk_blocks = config.streams ? config.streams->candidate_topk_blocks : 0,
          .n_routed_experts = config.n_routed_experts,
          .num_experts_per_tok = config.num_experts_per_tok,
          .moe_intermediate_size = config.moe_intermediate_size,
          .vocab_size = config.vocab_size,
          .markov_rank = config.dspark.markov_rank,
          .activation_group = config.activation_group()};
}

std::int64_t forward_buffer_bytes(const RankConfig& rank, std::int64_t max_rows, ElementType type) {
  ActivationArrays counted(max_rows, type, nullptr);
  lay_out<EngramArrays, StreamArrays, HalfBlockArrays, AttentionArrays, RotationArrays, OutputArrays,
          RouterArrays>(rank, counted);
  return counted.bytes();
}

std::int64_t message_buffer_bytes(const RankConfig& rank, const RankLayout& layout, std::int64_t max_rows,
                                  ElementType type) {
  UnbackedMemory memory;
  MessageArrays counted(max_rows, type, memory);
  static_cast<void>(partial_sums(rank, layout, counted));
  lay_out<OutputMessages, ExpertMessages, HeadMessages>(rank, layout, counted);
  return counted.bytes();
}

Forward::Forward(const RankConfig& rank, const WeightTree& weights, Device& device, const KvCache& cache,
                 Precision precision, std::int64_t max_rows, Arena& arena, RankLayout layout)
    : layout_(std::move(layout)),
      context_{.rank = rank,
               .weights = weights,
               .device = device,
               .cache = cache,
               .precision = precision,
               .layout = layout_},
      activations_(device.traits().padded_rows(max_rows), device.traits().activation_type, &arena),
      messages_(device.traits().padded_rows(max_rows), device.traits().activation_type, device.memory()),
      sums_(partial_sums(rank, layout_, messages_)),
      streams_(context_, activations_),
      attention_(context_, activations_, messages_, sums_),
      experts_(context_, activations_, messages_, sums_),
      heads_(context_, messages_, streams_.half().u) {}

void Forward::run_blocks(const Pass& pass) {
  experts_.begin(pass);
  for (std::int64_t block = pass.begin; block < pass.end; ++block) {
    streams_.enter_block(block, pass);
    attention_.run(block, pass, streams_.half(pass));
    streams_.enter_experts(block, pass);
    experts_.run(block, pass, streams_.half(pass));
    streams_.leave_block(block, pass);
  }
}

void Forward::run_main(const Step& step) {
  const RowShares shares(layout_, step);
  const Pass pass{.step = step,
                  .shares = shares,
                  .begin = 0,
                  .end = context_.rank.num_layers(),
                  .streams = rows(streams_.arrays().main, shares.kept().size()),
                  .counts_load = !streams_.is_observed()};
  attention_.begin(pass);
  streams_.begin(pass);
  run_blocks(pass);
  streams_.end(pass);
}

void Forward::run_encoder(const Step& step, std::int64_t end) {
  const RowShares shares(layout_, step);
  const Pass pass{.step = step,
                  .shares = shares,
                  .begin = 0,
                  .end = end,
                  .streams = rows(streams_.arrays().main, shares.kept().size()),
                  .counts_load = !streams_.is_observed()};
  attention_.begin(pass);
  streams_.begin(pass);
  if (end > 0) run_blocks(pass);
  streams_.enter_entries(end, pass);
  attention_.store_entries(end, pass, streams_.half());
}

void Forward::run_decoder(const Step& step, std::int64_t begin, const HandedRows& from) {
  const RowShares shares(layout_, step);
  const RowRange kept = shares.kept();
  const Pass pass{.step = step,
                  .shares = shares,
                  .begin = begin,
                  .end = context_.rank.num_layers(),
                  .streams = streams_.arrays().drafts.slice(kept.begin, kept.end),
                  .counts_load = !streams_.is_observed(),
                  .resumes = true};
  attention_.begin(pass);
  streams_.resume(pass, from);
  run_blocks(pass);
}

void Forward::run_drafts(const Step& step, const DraftRun& drafts) {
  const RowShares shares(layout_, step);
  const std::int64_t num_rows = shares.kept().size();
  const StreamArrays& arrays = streams_.arrays();
  const Pass pass{.step = step,
                  .shares = shares,
                  .begin = drafts.begin,
                  .end = drafts.end,
                  .streams = rows(arrays.drafts, num_rows),
                  .counts_load = !streams_.is_observed()};
  attention_.begin(pass);
  context_.device.executor().enter_block(drafts.begin);
  // The first block has not begun: what it sees and what its attention returns have no values yet.
  drafts.enter({.tokens = pass.kept_tokens(),
                .kept = shares.kept(),
                .streams = pass.streams,
                .stream_values = rows(arrays.main, num_rows),
                .values = {rows(streams_.half().u, num_rows), rows(streams_.half().f, num_rows)}});
  run_blocks(pass);
}

void Forward::record_drafts(const Step& step, const DraftRecord& record) {
  const RowShares shares(layout_, step);
  const Pass pass{.step = step,
                  .shares = shares,
                  .begin = record.begin,
                  .end = record.end,
                  .streams = rows(streams_.arrays().drafts, shares.kept().size())};
  attention_.begin(pass);
  context_.device.executor().enter_block(record.begin);
  const HalfBlock& half = streams_.half();
  const RowRange own = streams_.attention_rows(pass);
  record.enter({.kept = shares.kept(),
                .u = half.u.slice(own.begin, own.end),
                .u_fp8 = layout_.plan().sequence_parallel ? Fp8Rows() : half.u_fp8,
                .free = rows(half.f, own.size())});
  for (std::int64_t block = record.begin; block < record.end; ++block) attention_.store(block, pass, half);
}

Activations<3> Forward::returned(const Activations<3>& streams, const Step& step) const {
  return rows(streams, layout_.plan().shares_rows() ? kept().size() : step.batch.num_rows());
}

Activations<3> Forward::run(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  if (overlap_ && overlap_->cuts(batch)) {
    num_rows_ = batch.num_rows();
    return overlap_->run(batch, chosen);
  }
  const Activations<3>& streams = streams_.arrays().main;
  StepBatches& batches = context_.device.batches();
  const Step step{batch, chosen.empty() ? batches.begin(batch) : batches.begin(batch, chosen)};
  BALEEN_CHECK_LE(step.rows.num_rows, streams.extent(0));
  num_rows_ = step.rows.num_rows;
  streams_.engram().begin(step);
  if (streams_.is_observed()) {
    run_main(step);  // a repeated step would not call the observer
  } else {
    context_.device.steps().run(StepPart::kMain, [&] { run_main(step); });
  }
  return returned(streams, step);
}

Activations<3> Forward::run(const RaggedBatch& batch, std::span<const TokenId> chosen,
                            const DecoderRows& decoder) {
  const Activations<3>& streams = streams_.arrays().drafts;
  StepBatches& batches = context_.device.batches();
  const Step step{batch, batches.begin(batch, chosen)};
  BALEEN_CHECK_LE(step.rows.num_rows, streams.extent(0));
  num_rows_ = step.rows.num_rows;
  streams_.engram().begin(step);
  // Steps of two batches are not among those that are captured, and all stages queue alike.
  const std::int64_t begin = decoder.begin - context_.rank.stage().begin;
  if (begin >= context_.rank.num_layers()) {
    run_main(step);
    return returned(streams_.arrays().main, step);
  }
  run_encoder(step, begin);
  if (!decoder.any) {
    num_rows_ = 0;
    return rows(streams, 0);
  }
  const Step rest{decoder.batch, batches.begin(decoder.batch, chosen)};
  BALEEN_CHECK_LE(rest.rows.num_rows, streams.extent(0));
  num_rows_ = rest.rows.num_rows;
  const std::vector<RowRange> kept = layout_.kept_rows(step.rows.num_rows);
  run_decoder(rest, begin, {.rows = decoder.rows, .kept = kept});
  if (!layout_.plan().shares_rows()) return returned(streams, rest);
  return streams.slice(this->kept().begin, this->kept().end);
}

Activations<3> Forward::run_drafts(const RaggedBatch& batch, std::span<const TokenId> chosen,
                                   const DraftRun& drafts) {
  const Activations<3>& streams = streams_.arrays().drafts;
  BALEEN_CHECK_LE(batch.num_rows(), streams.extent(0));
  const Step step{batch, context_.device.batches().begin(batch, chosen)};
  num_rows_ = step.rows.num_rows;
  context_.device.steps().run(StepPart::kDraft, [&] { run_drafts(step, drafts); });
  return returned(streams, step);
}

void Forward::record_drafts(const RaggedBatch& batch, std::span<const TokenId> chosen,
                            const DraftRecord& record) {
  BALEEN_CHECK_LE(batch.num_rows(), streams_.arrays().drafts.extent(0));
  const Step step{batch, context_.device.batches().begin(batch, chosen)};
  BALEEN_CHECK_EQ(num_rows_, step.rows.num_rows);
  context_.device.steps().run(StepPart::kFollow, [&] { record_drafts(step, record); });
}

Activations<3> Forward::gathered(ConstActivations<3> own, const Activations<3>& all) {
  const auto flat = [](const auto& streams) {
    return streams.template reshaped<2>({streams.extent(0), streams.extent(1) * streams.extent(2)});
  };
  const Activations<3> to = rows(all, num_rows_);
  static_cast<void>(gathered(flat(own), flat(to)));
  return to;
}

Activations<2> Forward::gathered(ConstActivations<2> own, const Activations<2>& all) {
  const Activations<2> to = rows(all, num_rows_);
  const std::vector<RowRange> shares = layout_.kept_rows(num_rows_);
  context_.device.execute<ops::AllGather>({.group = &layout_.group(), .x = own, .rows = shares, .y = to});
  return to;
}

void Forward::capture(std::int64_t num_rows) {
  context_.device.steps().capture(StepPart::kMain, num_rows, [&](const StepRows& padding) {
    run_main({{}, padding});
  });
  if (overlap_) overlap_->capture(num_rows);
}

void Forward::capture_drafts(std::int64_t num_rows, const DraftRun& drafts) {
  context_.device.steps().capture(StepPart::kDraft, num_rows, [&](const StepRows& padding) {
    if (drafts.begin < drafts.end) run_drafts({{}, padding}, drafts);
  });
}

void Forward::capture_record(std::int64_t num_rows, const DraftRecord& record) {
  context_.device.steps().capture(StepPart::kFollow, num_rows, [&](const StepRows& padding) {
    if (record.begin < record.end) record_drafts({{}, padding}, record);
  });
}

}  // namespace baleen
