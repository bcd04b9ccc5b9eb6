/// A device that writes down what it is asked: the engine's forward pass on it yields the operations of a rank.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

/// Arguments are those of one rank's forward pass without any splitting of tokens. What a plan changes is put in here:
/// which rows and groups of heads the output projection sees, which visits reach this rank's experts, which rows a
/// sequence-parallel rank keeps, and the messages between ranks.
class RecordingDevice final : public Device {
 public:
  /// Appends to `graph`. All outlive this.
  RecordingDevice(const RankModel& model, const Workload& workload, const GraphOptions& options,
                  OpGraph& graph);

  /// What follows belongs to `part`.
  void enter(GraphPart part) { part_ = part; }

  [[nodiscard]] std::string name() const override { return "recorder"; }
  [[nodiscard]] Memory& memory() override { return memory_; }
  [[nodiscard]] Memory& host_visible_memory() override { return memory_; }
  [[nodiscard]] std::int64_t free_bytes() const override { return std::int64_t{1} << 62; }
  [[nodiscard]] ElementType activation_type() const override { return options_.activations; }
  [[nodiscard]] std::int64_t padded_rows(std::int64_t num_rows) const override { return num_rows; }
  void synchronise() override {}
  StepRows begin(const RaggedBatch& batch) override { return {batch.num_rows(), batch.tokens}; }
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> /*chosen*/) override {
    return begin(batch);
  }
  void set_mark(int /*mark*/) override {}
  void wait_for(int /*mark*/) override {}
  void run(StepPart /*part*/, const std::function<void()>& operations) override { operations(); }
  void capture(StepPart /*part*/, std::int64_t /*num_rows*/,
               const std::function<void(const StepRows&)>& /*operations*/) override {}

  void embed(const EmbedArgs& args) override;
  void rope_angles(const RopeAnglesArgs& args) override;
  void hc_pre(const HcPreArgs& args) override;
  void hc_post(const HcPostArgs& args) override;
  void hc_head(const HcHeadArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void linear(const LinearArgs& args) override;
  void rope(const RopeArgs& args) override;
  void kv_store(const KvStoreArgs& args) override;
  void compressor(const CompressorArgs& args) override;
  void indexer(const IndexerArgs& args) override;
  void sparse_attention(const SparseAttentionArgs& args) override;
  void grouped_linear(const GroupedLinearArgs& args) override;
  void route(const RouteArgs& args) override;
  void experts(const ExpertsArgs& args) override;
  void mtp_combine(const MtpCombineArgs& args) override;
  void lm_head(const LmHeadArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void sample(const SampleArgs& args) override;

  void hc_pre_norm(const HcPreArgs& pre, const RmsNormArgs& norm) override;
  void hc_post_pre_norm(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm) override;
  void rms_norm_rope(const RmsNormArgs& norm, const RopeArgs& turn) override;
  void rms_norm_kv_store(const RmsNormArgs& norm, const KvStoreArgs& store) override;
  void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& turn) override;

  void set_profiling(bool /*on*/) override {}
  [[nodiscard]] OpProfile& profile() override { return profile_; }

 private:
  void add(std::string_view operation, std::string detail, std::int64_t num_rows, const OpCost& cost,
           int num_kernels = 1);
  void add_message(CollectiveKind kind, std::int64_t group_size, double bytes);
  /// Those of `rows` that a rank keeps between attention and attention.
  [[nodiscard]] std::int64_t kept(std::int64_t rows) const;
  /// The output projection's second half, with rows and groups as o_proj_tp has them.
  void project_output(const LinearArgs& args);
  void messages_before_experts(std::int64_t num_rows);
  void messages_after_experts(std::int64_t num_rows);
  /// Rows of the output projection: with more ranks than heads are split over, also those of other groups.
  [[nodiscard]] std::int64_t output_rows(std::int64_t num_rows) const;

  const RankModel& model_;
  const ParallelPlan& plan_;
  const Workload& workload_;
  GraphOptions options_;
  OpGraph& graph_;
  UnbackedMemory memory_;
  OpProfile profile_;
  GraphPart part_ = GraphPart::kLayers;
  std::int64_t block_ = -1;  ///< that the last matrix belonged to
};

}  // namespace baleen
