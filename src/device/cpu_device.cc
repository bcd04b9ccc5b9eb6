#include "device/cpu_device.h"

#include <chrono>

namespace baleen {

CpuDevice::CpuDevice(int num_threads, std::int64_t scratch_bytes, Kernels kernels)
    : pool_(num_threads), scratch_(scratch_bytes), context_{pool_, scratch_, kernels} {}

template <class Args>
void CpuDevice::run(std::string_view name, void (*operation)(const Args&, CpuContext&),
                    OpCost (*cost)(const Args&), const Args& args) {
  if (!profiling_) return operation(args, context_);
  const auto start = std::chrono::steady_clock::now();
  operation(args, context_);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  profile_.add(name, elapsed.count(), cost(args));
}

void CpuDevice::embed(const EmbedArgs& args) { run("embed", baleen::embed, embed_cost, args); }
void CpuDevice::hc_pre(const HcPreArgs& args) { run("hc_pre", baleen::hc_pre, hc_pre_cost, args); }
void CpuDevice::hc_post(const HcPostArgs& args) { run("hc_post", baleen::hc_post, hc_post_cost, args); }
void CpuDevice::hc_head(const HcHeadArgs& args) { run("hc_head", baleen::hc_head, hc_head_cost, args); }
void CpuDevice::rms_norm(const RmsNormArgs& args) { run("rms_norm", baleen::rms_norm, rms_norm_cost, args); }
void CpuDevice::linear(const LinearArgs& args) { run("linear", baleen::linear, linear_cost, args); }
void CpuDevice::rope(const RopeArgs& args) { run("rope", baleen::rope, rope_cost, args); }
void CpuDevice::kv_store(const KvStoreArgs& args) { run("kv_store", baleen::kv_store, kv_store_cost, args); }
void CpuDevice::compressor(const CompressorArgs& args) {
  run("compressor", baleen::compressor, compressor_cost, args);
}
void CpuDevice::indexer(const IndexerArgs& args) { run("indexer", baleen::indexer, indexer_cost, args); }
void CpuDevice::sparse_attention(const SparseAttentionArgs& args) {
  run("sparse_attention", baleen::sparse_attention, sparse_attention_cost, args);
}
void CpuDevice::grouped_linear(const GroupedLinearArgs& args) {
  run("grouped_linear", baleen::grouped_linear, grouped_linear_cost, args);
}
void CpuDevice::route(const RouteArgs& args) { run("route", baleen::route, route_cost, args); }
void CpuDevice::experts(const ExpertsArgs& args) { run("experts", baleen::experts, experts_cost, args); }
void CpuDevice::mtp_combine(const MtpCombineArgs& args) {
  run("mtp_combine", baleen::mtp_combine, mtp_combine_cost, args);
}
void CpuDevice::lm_head(const LmHeadArgs& args) { run("lm_head", baleen::lm_head, lm_head_cost, args); }

}  // namespace baleen
