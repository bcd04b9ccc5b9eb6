/// One NVIDIA Hopper GPU. Operations are queued on a stream; steps of few rows can be captured as CUDA graphs, one for each
/// part of a step and bucket of rows, and are replayed from then on: between layers the host does nothing.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cuda/batch_upload.h"
#include "cuda/cuda_context.h"
#include "cuda/cuda_graph.h"
#include "cuda/cuda_memory.h"
#include "cuda/cuda_stream.h"
#include "device/device.h"
#include "device/make_device.h"
#include "device/op_profile.h"
#include "device/step_shape.h"

namespace baleen {

/// Why GPU `index` cannot be used: none there, too old a driver, no Hopper GPU. Empty when it can.
[[nodiscard]] std::string why_not_cuda(int index);

/// Scratch of the largest operation of a step.
[[nodiscard]] std::int64_t cuda_scratch_bytes(const StepShape& shape);

[[nodiscard]] DeviceCeilings measure_cuda_ceilings(int index);

/// One thread at a time; the GPU becomes its current one.
class CudaDevice final : public Device {
 public:
  /// Throws `Error` when the GPU cannot be used or has no room for scratch and batch.
  CudaDevice(int index, const DeviceOptions& options);
  ~CudaDevice() override;

  [[nodiscard]] std::string name() const override;
  [[nodiscard]] Memory& memory() override { return memory_; }
  [[nodiscard]] Memory& host_visible_memory() override { return pinned_memory_; }
  [[nodiscard]] std::int64_t free_bytes() const override;
  [[nodiscard]] ElementType activation_type() const override { return ElementType::kBf16; }
  [[nodiscard]] std::int64_t padded_rows(std::int64_t num_rows) const override;
  void synchronise() override;
  StepRows begin(const RaggedBatch& batch) override;
  StepRows begin(const RaggedBatch& batch, std::span<const TokenId> chosen) override;
  void set_mark(int mark) override;
  void wait_for(int mark) override;
  void run(StepPart part, const std::function<void()>& operations) override;
  void capture(StepPart part, std::int64_t num_rows,
               const std::function<void(const StepRows&)>& operations) override;

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

  /// Profiled operations are queued one by one, with events around them: steps are not replayed meanwhile.
  void set_profiling(bool on) override { profiling_ = on; }
  [[nodiscard]] OpProfile& profile() override;

 private:
  /// An operation whose events have not been read yet.
  struct Timed {
    std::string_view name;
    OpCost cost;
    CudaEvent begin, end;
  };
  static constexpr unsigned kWaitAsleep = cudaEventBlockingSync | cudaEventDisableTiming;
  static constexpr int kNumParts = static_cast<int>(StepPart::kCount);

  [[nodiscard]] StepRows begin_padded(const RaggedBatch& batch, std::int64_t num_rows);
  [[nodiscard]] std::unique_ptr<CudaGraph>& graph_of(StepPart part, std::int64_t num_rows);

  /// Queues an operation; `cost` is called when times are wanted.
  template <class Launch, class Cost>
  void call(std::string_view name, Launch&& launch, Cost&& cost);
  void read_times();

  int index_;
  CudaStream stream_;
  CudaMemory memory_;
  CudaPinnedMemory pinned_memory_;
  Arena scratch_;
  BatchUpload upload_;
  CudaContext context_;
  std::array<std::vector<std::unique_ptr<CudaGraph>>, kNumParts> graphs_;  ///< by part and rows
  std::array<CudaEvent, kNumMarks> marks_{CudaEvent(kWaitAsleep), CudaEvent(kWaitAsleep)};
  bool profiling_ = false;
  std::vector<Timed> timed_;
  OpProfile profile_;
};

}  // namespace baleen
