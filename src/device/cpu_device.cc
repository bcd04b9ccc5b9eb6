#include "device/cpu_device.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "tensor/chosen_token.h"

namespace baleen {

std::int64_t cpu_scratch_bytes(const StepShape& shape, int num_threads) {
  const std::int64_t widest_input = std::max({shape.hidden_size, shape.q_lora_rank, shape.o_dim});
  return std::max(
      {linear_scratch_bytes(shape.max_rows, widest_input),
       // h_proj of the MTP block sees every stream as a row.
       linear_scratch_bytes(shape.max_rows * shape.hc_mult, shape.hidden_size),
       hc_pre_scratch_bytes(shape.max_rows, shape.hc_mult, shape.hidden_size),
       hc_head_scratch_bytes(shape.max_logit_rows, shape.hc_mult, shape.hidden_size),
       route_scratch_bytes(shape.n_routed_experts, num_threads),
       grouped_linear_scratch_bytes(shape.max_rows, shape.o_groups, shape.group_dim),
       kv_store_scratch_bytes(shape.head_dim, num_threads),
       compressor_scratch_bytes(shape.head_dim, num_threads),
       indexer_scratch_bytes(shape.index_n_heads, shape.index_head_dim, shape.index_topk, num_threads),
       sparse_attention_scratch_bytes(shape.num_attention_heads, shape.head_dim, num_threads),
       experts_scratch_bytes(shape.max_rows, shape.num_experts_per_tok, shape.hidden_size,
                             shape.moe_intermediate_size, shape.n_routed_experts, num_threads),
       linear_scratch_bytes(shape.max_logit_rows, shape.hidden_size)});
}

std::int64_t CpuDevice::free_bytes() const { return ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE); }

CpuDevice::CpuDevice(int num_threads, std::int64_t scratch_bytes, Kernels kernels)
    : pool_(num_threads), scratch_(scratch_bytes), context_{pool_, scratch_, kernels} {}

StepRows CpuDevice::begin(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  chosen_.clear();
  for (const TokenId token : batch.tokens) {
    chosen_.push_back(is_chosen_token(token) ? std::max(chosen[chosen_index(token)], 0) : token);
  }
  return {batch.num_rows(), chosen_};
}

template <class Args>
void CpuDevice::call(std::string_view name, void (*operation)(const Args&, CpuContext&),
                     OpCost (*cost)(const Args&), const Args& args) {
  if (!profiling_) return operation(args, context_);
  const auto start = std::chrono::steady_clock::now();
  operation(args, context_);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  profile_.add(name, elapsed.count(), cost(args));
}

void CpuDevice::embed(const EmbedArgs& args) { call("embed", baleen::embed, embed_cost, args); }
void CpuDevice::rope_angles(const RopeAnglesArgs& args) {
  call<RopeAnglesArgs>("rope_angles", baleen::rope_angles, rope_angles_cost, args);
}
void CpuDevice::hc_pre(const HcPreArgs& args) { call("hc_pre", baleen::hc_pre, hc_pre_cost, args); }
void CpuDevice::hc_post(const HcPostArgs& args) { call("hc_post", baleen::hc_post, hc_post_cost, args); }
void CpuDevice::hc_head(const HcHeadArgs& args) { call("hc_head", baleen::hc_head, hc_head_cost, args); }
void CpuDevice::rms_norm(const RmsNormArgs& args) { call("rms_norm", baleen::rms_norm, rms_norm_cost, args); }
void CpuDevice::linear(const LinearArgs& args) { call("linear", baleen::linear, linear_cost, args); }
void CpuDevice::rope(const RopeArgs& args) { call("rope", baleen::rope, rope_cost, args); }
void CpuDevice::kv_store(const KvStoreArgs& args) { call("kv_store", baleen::kv_store, kv_store_cost, args); }
void CpuDevice::compressor(const CompressorArgs& args) {
  call("compressor", baleen::compressor, compressor_cost, args);
}
void CpuDevice::indexer(const IndexerArgs& args) { call("indexer", baleen::indexer, indexer_cost, args); }
void CpuDevice::sparse_attention(const SparseAttentionArgs& args) {
  call("sparse_attention", baleen::sparse_attention, sparse_attention_cost, args);
}
void CpuDevice::grouped_linear(const GroupedLinearArgs& args) {
  call("grouped_linear", baleen::grouped_linear, grouped_linear_cost, args);
}
void CpuDevice::route(const RouteArgs& args) { call("route", baleen::route, route_cost, args); }
void CpuDevice::experts(const ExpertsArgs& args) { call("experts", baleen::experts, experts_cost, args); }
void CpuDevice::mtp_combine(const MtpCombineArgs& args) {
  call("mtp_combine", baleen::mtp_combine, mtp_combine_cost, args);
}
void CpuDevice::lm_head(const LmHeadArgs& args) { call("lm_head", baleen::lm_head, lm_head_cost, args); }

void CpuDevice::gather_rows(const GatherRowsArgs& args) {
  call("gather_rows", baleen::gather_rows, gather_rows_cost, args);
}
void CpuDevice::sample(const SampleArgs& args) {
  call<SampleArgs>(
      "sample", [](const SampleArgs& a, CpuContext&) { sample_ref(a); }, sample_cost, args);
}

}  // namespace baleen
