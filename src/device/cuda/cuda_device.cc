#include "device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "cuda/cuda_error.h"
#include "cuda/shared_memory_limit.h"
#include "device/gpu_driver.h"

namespace baleen {
namespace {

cudaDeviceProp properties(int index) {
  cudaDeviceProp device{};
  check_cuda(cudaGetDeviceProperties(&device, index), "reading the GPU's properties");
  return device;
}

/// A step of starting GPU `index`.
void check_start(int index, cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaDeviceProp device{};
  static_cast<void>(cudaGetDeviceProperties(&device, index));
  if (const std::string why = why_not_started(status, device.name); !why.empty())
    fail("cuda:{}: {}", index, why);
  check_cuda(status, what);
}

int select_device(int index) {
  check_start(index, cudaSetDevice(index), "selecting the GPU");
  // The host waits for whole steps: it should not take a processor from the threads that serve.
  check_start(index, cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync), "setting up the GPU");
  check_start(index, cudaFree(nullptr), "starting the GPU");
  return index;
}

std::string taken_memory_of_current() {
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  return taken_memory_text(static_cast<std::int64_t>(total_bytes), static_cast<std::int64_t>(free_bytes));
}

/// `traits` of the architecture, with what this GPU says of itself, or of the card that is imposed on it.
/// Throws `Error` where kernels want more shared memory than there is.
DeviceTraits traits_of(int index, DeviceTraits traits, const std::optional<DeviceTraits>& imposed) {
  const cudaDeviceProp device = properties(index);
  const auto shared_bytes =
      imposed ? imposed->shared_bytes_per_block : static_cast<std::int64_t>(device.sharedMemPerBlockOptin);
  if (shared_bytes < traits.shared_bytes_per_block) {
    fail("cuda:{}: {} has {} KiB of shared memory a block; kernels of {} want {}", index, device.name,
         shared_bytes >> 10, traits.architecture, traits.shared_bytes_per_block >> 10);
  }
  if (imposed) return *imposed;
  traits.shared_bytes_per_block = shared_bytes;
  traits.num_units = device.multiProcessorCount;
  traits.l2_bytes = device.l2CacheSize;
  return traits;
}

/// A batch in which every sequence has a page table of the longest, and a replayed step as many sequences as
/// rows.
BatchCapacity capacity_of(const DeviceOptions& options, const DeviceTraits& traits) {
  const std::int64_t max_rows = traits.padded_rows(options.max_rows);
  return {.max_rows = max_rows,
          .max_sequences = std::max(options.max_sequences, std::min(traits.max_replayed_rows, max_rows)),
          .max_pages = options.max_sequences * options.max_pages};
}

}  // namespace

DeviceCeilings measure_cuda_ceilings(const GpuKernels& kernels, int index) {
  select_device(index);
  const CudaStream stream;
  const cudaDeviceProp device = properties(index);
  const GpuLimits limits = kernels.measure_limits(stream.get(), device.multiProcessorCount);
  return {.name = device.name,
          .bytes_per_second = limits.copy_bytes_per_second,
          .bf16_flops_per_second = limits.bf16_flops_per_second,
          .fp8_flops_per_second = limits.fp8_flops_per_second};
}

CudaDevice::CudaDevice(int index, const DeviceTraits& traits, const GpuKernels& kernels,
                       const DeviceOptions& options)
    : index_(select_device(index)),
      taken_memory_(taken_memory_of_current()),
      traits_(traits_of(index, traits, options.imposed_traits)),
      kernels_(kernels),
      memory_(stream_.get()),
      copies_(stream_.get()),
      scratch_(options.scratch_bytes, memory_),
      context_{.stream = {stream_.get(), &order_, traits_.starts_kernels_early},
               .scratch = scratch_,
               .batch = {},
               .num_sms = traits_.num_units,
               .rates = traits_.rates,
               .branch = &branch_},
      batches_(index, traits_, capacity_of(options, traits_), options.two_batches, memory_, pinned_memory_,
               context_),
      steps_(traits_, batches_, context_),
      messages_(context_),
      forced_variants_(options.forced_variants),
      timer_(stream_.get(), profile_) {
  limit_shared_memory(index, traits_.shared_bytes_per_block);
  const bool by_nccl = options.connection.peers != nullptr && options.connection.peers->nccl() != nullptr;
  executor_.emplace(by_nccl ? kernels_.variants_over_nccl() : kernels_.variants(), traits_, context_,
                    forced_variants_);
}

CudaDevice::~CudaDevice() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

std::string CudaDevice::name() const { return fmt::format("{} (cuda:{})", properties(index_).name, index_); }

std::int64_t CudaDevice::free_bytes() const {
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  // Scratch is part of every plan and taken already. Allocations to come are rounded up to whole pieces.
  constexpr std::int64_t kRoundedUpBytes = 32 * kDevicePageBytes;
  return static_cast<std::int64_t>(free_bytes) + scratch_.size_bytes() - kRoundedUpBytes;
}

void CudaDevice::connect(const PeerRank& peers, Communicator& host, RankGroup steps) {
  context_.peers = &peers;
  if (peers.nccl() != nullptr)
    executor_.emplace(kernels_.variants_over_nccl(), traits_, context_, forced_variants_);
  context_.num_sms = static_cast<int>(std::max<std::int64_t>(1, traits_.num_units / peers.sharing()));
  batches_.agree(host, std::move(steps));
  steps_.meet_before_capture(host);
  can_wait_beside_ = peers.nccl() == nullptr && peers.sharing() == 1;
  choose_order();
}

void CudaDevice::synchronise() {
  check_cuda(cudaStreamSynchronize(stream_.get()), "running a step");
  check_messages();
}

void CudaDevice::set_profiling(bool on) {
  profiling_ = on;
  executor_->set_timer(on ? &timer_ : nullptr);
  steps_.set_replaying(!profiling_ && !reporting_);
  choose_order();
}

/// What is timed runs alone.
void CudaDevice::choose_order() { messages_.set_beside(can_wait_beside_ && !profiling_); }

void CudaDevice::set_report(VariantReport* report) {
  reporting_ = report != nullptr;
  executor_->set_report(report);
  steps_.set_replaying(!profiling_ && !reporting_);
}

OpProfile& CudaDevice::profile() {
  synchronise();
  timer_.read();
  return profile_;
}

void EventTimer::begin() {
  begin_.emplace();
  begin_->record(stream_);
}

void EventTimer::end(std::string_view name, const OpCost& cost, CallTime* call) {
  CudaEvent end;
  end.record(stream_);
  timed_.push_back({name, cost, call, std::move(*begin_), std::move(end)});
}

void EventTimer::read() {
  for (const Timed& timed : timed_) {
    const double seconds = timed.begin.seconds_until(timed.end);
    profile_.add(timed.name, seconds, timed.cost);
    if (timed.call != nullptr) timed.call->add(seconds);
  }
  timed_.clear();
}

}  // namespace baleen
