/// The CPU: runs every operation at once, on a pool of threads, in the caller's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "device/device.h"
#include "device/op_profile.h"
#include "device/step_shape.h"

namespace baleen {

/// Scratch of the largest operation of a step.
[[nodiscard]] std::int64_t cpu_scratch_bytes(const StepShape& shape, int num_threads);

class CpuDevice final : public Device {
 public:
  /// `scratch_bytes` covers the largest operation that will run.
  CpuDevice(int num_threads, std::int64_t scratch_bytes, Kernels kernels = Kernels::kBest);

  [[nodiscard]] std::string name() const override { return "this machine's memory"; }
  [[nodiscard]] Memory& memory() override { return host_memory(); }
  [[nodiscard]] Memory& host_visible_memory() override { return host_memory(); }
  /// All there is: what others use can be reclaimed in part, and is resident only where touched.
  [[nodiscard]] std::int64_t free_bytes() const override;
  [[nodiscard]] ElementType activation_type() const override { return ElementType::kF32; }
  [[nodiscard]] std::int64_t padded_rows(std::int64_t num_rows) const override { return num_rows; }
  void synchronise() override {}
  StepRows begin(const RaggedBatch& batch) override { return {batch.num_rows(), batch.tokens}; }
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) override;
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

  /// The clock and the cost functions take a microsecond or two an operation.
  void set_profiling(bool on) override { profiling_ = on; }
  [[nodiscard]] OpProfile& profile() override { return profile_; }
  [[nodiscard]] int num_threads() const { return pool_.num_threads(); }

 private:
  template <class Args>
  void call(std::string_view name, void (*operation)(const Args&, CpuContext&), OpCost (*cost)(const Args&),
            const Args& args);

  ThreadPool pool_;
  Arena scratch_;
  CpuContext context_;
  std::vector<TokenId> chosen_;  ///< of the step, where it was begun with such
  bool profiling_ = false;
  OpProfile profile_;
};

}  // namespace baleen
