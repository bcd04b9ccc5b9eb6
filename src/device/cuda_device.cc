#include "device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "cuda/chosen_tokens.h"
#include "cuda/cuda_error.h"
#include "cuda/gpu_limits.h"
#include "ops/compressor/sm90/compressor.h"
#include "ops/embed/sm90/embed.h"
#include "ops/experts/sm90/experts.h"
#include "ops/gather_rows/sm90/gather_rows.h"
#include "ops/grouped_linear/sm90/grouped_linear.h"
#include "ops/hc_head/sm90/hc_head.h"
#include "ops/hc_post/sm90/hc_post.h"
#include "ops/hc_pre/sm90/hc_pre.h"
#include "ops/indexer/sm90/indexer.h"
#include "ops/kv_store/sm90/kv_store.h"
#include "ops/linear/sm90/linear.h"
#include "ops/lm_head/sm90/lm_head.h"
#include "ops/mtp_combine/sm90/mtp_combine.h"
#include "ops/rms_norm/sm90/rms_norm.h"
#include "ops/rope/sm90/rope_angles.h"
#include "ops/route/sm90/route.h"
#include "ops/sample/sm90/sample.h"
#include "ops/sparse_attention/sm90/sparse_attention.h"
#include "tensor/captured_rows.h"

namespace baleen {
namespace {

constexpr int kHopperMajor = 9;

cudaDeviceProp properties(int index) {
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, index), "reading the GPU's properties");
  return device;
}

int select_device(int index) {
  if (const std::string why = why_not_cuda(index); !why.empty()) fail("cuda:{}: {}", index, why);
  check_cuda(cudaSetDevice(index), "selecting the GPU");
  // The host waits for whole steps: it should not take a processor from the threads that serve.
  check_cuda(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "setting up the GPU");
  check_cuda(cudaFree(nullptr), "starting the GPU");
  return index;
}

}  // namespace

std::string why_not_cuda(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    if (driver == 0) return "no NVIDIA driver is installed here";
    return fmt::format("the NVIDIA driver is for CUDA {}.{}, this program needs {}.{}; update the driver",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) return "no GPU was found";
  if (status != cudaSuccess) return fmt::format("CUDA says '{}'", cudaGetErrorString(status));
  if (index >= count) return fmt::format("there are {} GPUs, numbered from 0", count);
  const cudaDeviceProp device = properties(index);
  if (device.major != kHopperMajor) {
    return fmt::format("{} has compute capability {}.{}; the kernels need 9.0 (Hopper: H100, H200)",
                       device.name, device.major, device.minor);
  }
  return "";
}

DeviceCeilings measure_cuda_ceilings(int index) {
  select_device(index);
  const CudaStream stream;
  const cudaDeviceProp device = properties(index);
  const GpuLimits limits = measure_gpu_limits(stream.get(), device.multiProcessorCount);
  return {device.name, limits.copy_bytes_per_second, limits.bf16_flops_per_second,
          limits.fp8_flops_per_second};
}

CudaDevice::CudaDevice(int index, const DeviceOptions& options)
    : index_(select_device(index)),
      memory_(stream_.get()),
      scratch_(options.scratch_bytes, memory_),
      upload_({.max_rows = padded_rows(options.max_rows),
               .max_sequences =
                   std::max(options.max_sequences, std::min(kMaxGraphRows, padded_rows(options.max_rows))),
               .max_pages = options.max_sequences * options.max_pages},
              memory_, pinned_memory_, stream_.get()),
      context_{stream_.get(), scratch_, {}, properties(index).multiProcessorCount} {
  for (auto& graphs : graphs_) graphs.resize(static_cast<std::size_t>(kMaxGraphRows) + 1);
}

CudaDevice::~CudaDevice() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

std::string CudaDevice::name() const { return fmt::format("{} (cuda:{})", properties(index_).name, index_); }

std::int64_t CudaDevice::free_bytes() const {
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  // Scratch is part of every plan and taken already.
  return static_cast<std::int64_t>(free_bytes) + scratch_.size_bytes();
}

std::int64_t CudaDevice::padded_rows(std::int64_t num_rows) const {
  return baleen::padded_rows(DeviceKind::kCuda, num_rows);
}

void CudaDevice::synchronise() { check_cuda(cudaStreamSynchronize(stream_.get()), "running a step"); }

StepRows CudaDevice::begin(const RaggedBatch& batch) {
  // Another thread than the one that made the device may run steps, and every thread has a current GPU of its own.
  check_cuda(cudaSetDevice(index_), "selecting the GPU");
  return begin_padded(batch, padded_rows(batch.num_rows()));
}

StepRows CudaDevice::begin(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  const StepRows rows = begin(batch);
  if (std::ranges::any_of(batch.tokens, is_chosen_token)) {
    take_chosen_tokens(chosen.data(), batch.num_rows(), upload_.tokens(), stream_.get());
  }
  return rows;
}

void CudaDevice::set_mark(int mark) { marks_[static_cast<std::size_t>(mark)].record(stream_.get()); }
void CudaDevice::wait_for(int mark) { marks_[static_cast<std::size_t>(mark)].wait(); }

StepRows CudaDevice::begin_padded(const RaggedBatch& batch, std::int64_t num_rows) {
  // A replayed step is captured for as many sequences as rows: which of them are there, the batch says.
  const std::int64_t num_sequences =
      num_rows <= kMaxGraphRows ? num_rows : static_cast<std::int64_t>(batch.slices.size());
  context_.batch = upload_.upload(batch, num_rows, num_sequences);
  return {num_rows, {context_.batch.tokens, static_cast<std::size_t>(num_rows)}};
}

std::unique_ptr<CudaGraph>& CudaDevice::graph_of(StepPart part, std::int64_t num_rows) {
  return graphs_[static_cast<std::size_t>(part)][static_cast<std::size_t>(num_rows)];
}

void CudaDevice::run(StepPart part, const std::function<void()>& operations) {
  const std::int64_t num_rows = context_.batch.num_rows;
  if (profiling_ || num_rows > kMaxGraphRows || graph_of(part, num_rows) == nullptr) return operations();
  graph_of(part, num_rows)->launch(stream_.get());
}

void CudaDevice::capture(StepPart part, std::int64_t num_rows,
                         const std::function<void(const StepRows&)>& operations) {
  BALEEN_CHECK(num_rows <= kMaxGraphRows && num_rows == padded_rows(num_rows));
  const StepRows rows = begin_padded({}, num_rows);
  // Once for real: kernels load and set their attributes at their first launch, which a capture does not allow.
  operations(rows);
  graph_of(part, num_rows) = std::make_unique<CudaGraph>(stream_.get(), [&] { operations(rows); });
  synchronise();
}

template <class Launch, class Cost>
void CudaDevice::call(std::string_view name, Launch&& launch, Cost&& cost) {
  if (!profiling_) return launch();
  Timed timed{name, cost(), {}, {}};
  timed.begin.record(stream_.get());
  launch();
  timed.end.record(stream_.get());
  timed_.push_back(std::move(timed));
}

OpProfile& CudaDevice::profile() {
  read_times();
  return profile_;
}

void CudaDevice::read_times() {
  synchronise();
  for (const Timed& timed : timed_)
    profile_.add(timed.name, timed.begin.seconds_until(timed.end), timed.cost);
  timed_.clear();
}

// Every operation: its kernels, and its cost for the profile.

#define BALEEN_QUEUE(operation, Args)                                                                  \
  void CudaDevice::operation(const Args& args) {                                                       \
    call(                                                                                              \
        #operation, [&] { sm90::operation(args, context_); }, [&] { return operation##_cost(args); }); \
  }

BALEEN_QUEUE(embed, EmbedArgs)
BALEEN_QUEUE(rope_angles, RopeAnglesArgs)
BALEEN_QUEUE(hc_post, HcPostArgs)
BALEEN_QUEUE(hc_head, HcHeadArgs)
BALEEN_QUEUE(rms_norm, RmsNormArgs)
BALEEN_QUEUE(linear, LinearArgs)
BALEEN_QUEUE(kv_store, KvStoreArgs)
BALEEN_QUEUE(compressor, CompressorArgs)
BALEEN_QUEUE(indexer, IndexerArgs)
BALEEN_QUEUE(grouped_linear, GroupedLinearArgs)
BALEEN_QUEUE(route, RouteArgs)
BALEEN_QUEUE(mtp_combine, MtpCombineArgs)
BALEEN_QUEUE(lm_head, LmHeadArgs)
BALEEN_QUEUE(gather_rows, GatherRowsArgs)
BALEEN_QUEUE(sample, SampleArgs)

#undef BALEEN_QUEUE

void CudaDevice::experts(const ExpertsArgs& args) {
  call(
      "experts", [&] { sm90::experts(args, context_); }, [&] { return expected_experts_cost(args); });
}

void CudaDevice::hc_pre_norm(const HcPreArgs& pre, const RmsNormArgs& norm) {
  call(
      "hc_pre_norm", [&] { sm90::hc_pre_norm(pre, norm, context_); },
      [&] { return hc_pre_norm_cost(pre, norm); });
}

void CudaDevice::hc_post_pre_norm(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm) {
  call(
      "hc_post_pre_norm", [&] { sm90::hc_post_pre_norm(post, pre, norm, context_); },
      [&] { return hc_post_pre_norm_cost(post, pre, norm); });
}

void CudaDevice::rms_norm_rope(const RmsNormArgs& norm, const RopeArgs& turn) {
  call(
      "rms_norm_rope", [&] { sm90::rms_norm_rope(norm, turn, context_); },
      [&] { return rms_norm_rope_cost(norm, turn); });
}

void CudaDevice::rms_norm_kv_store(const RmsNormArgs& norm, const KvStoreArgs& store) {
  call(
      "rms_norm_kv_store", [&] { sm90::rms_norm_kv_store(norm, store, context_); },
      [&] { return rms_norm_cost(norm) + kv_store_cost(store); });
}

void CudaDevice::sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& turn) {
  call(
      "sparse_attention_rope", [&] { sm90::sparse_attention_rope(args, turn, context_); },
      [&] { return sparse_attention_rope_cost(args, turn); });
}

// The single halves of fused operations: the forward pass never asks for them.

void CudaDevice::hc_pre(const HcPreArgs& /*args*/) {
  check_failed("hc_pre", "only with its norm", __FILE__, __LINE__);
}
void CudaDevice::rope(const RopeArgs& /*args*/) {
  check_failed("rope", "only after its norm", __FILE__, __LINE__);
}
void CudaDevice::sparse_attention(const SparseAttentionArgs& /*args*/) {
  check_failed("sparse_attention", "only with its rotation", __FILE__, __LINE__);
}

}  // namespace baleen
