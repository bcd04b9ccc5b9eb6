/// The CPU: runs every operation at once, on a pool of threads, in the caller's memory.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "device/op_profile.h"

namespace baleen {

class CpuDevice final : public Device {
 public:
  /// `scratch_bytes` covers the largest operation that will run (the forward pass computes it).
  CpuDevice(int num_threads, std::int64_t scratch_bytes, Kernels kernels = Kernels::kBest);

  void embed(const EmbedArgs& args) override;
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

  /// Off by default: the clock and the cost functions take a microsecond or two an operation.
  void set_profiling(bool on) { profiling_ = on; }
  OpProfile& profile() { return profile_; }
  [[nodiscard]] int num_threads() const { return pool_.num_threads(); }

 private:
  template <class Args>
  void run(std::string_view name, void (*operation)(const Args&, CpuContext&), OpCost (*cost)(const Args&),
           const Args& args);

  ThreadPool pool_;
  Arena scratch_;
  CpuContext context_;
  bool profiling_ = false;
  OpProfile profile_;
};

}  // namespace baleen
