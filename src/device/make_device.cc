#include "device/make_device.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/number.h"
#include "base/quoted_text.h"
#include "device/cpu_device.h"
#include "device/hopper_traits.h"
#include "ops/operation/variant_choice.h"
#include "ops/operations.h"
#ifdef BALEEN_CUDA
#include "comm/nccl/nccl_rank.h"
#include "comm/peer/peer_memory.h"
#include "comm/peer/peer_process.h"
#include "device/cuda_device.h"
#include "ops/sm90/variants.h"
#endif

namespace baleen {
namespace {

constexpr std::int64_t kMaxDevices = 1023;

#ifndef BALEEN_CUDA
[[noreturn]] void fail_without_cuda(const DeviceChoice& choice) {
  fail(
      "--device {}: this program was built without CUDA: build it where nvcc 12.3 or later is found, or use "
      "--device cpu",
      device_name(choice));
}
#endif

}  // namespace

DeviceChoice device_from_name(std::string_view name) {
  constexpr std::string_view kCudaPrefix = "cuda";
  if (name == "cpu") return {};
  if (name == "auto") {
#ifdef BALEEN_CUDA
    if (why_not_cuda(0).empty()) return {DeviceKind::kCuda, 0};
#endif
    return {};
  }
  DeviceChoice choice{DeviceKind::kCuda, 0};
  bool good = name.starts_with(kCudaPrefix);
  if (good && name != kCudaPrefix) {
    const std::string_view index = name.substr(kCudaPrefix.size());
    const Result<std::int64_t> number = read_whole(index.substr(1), {0, kMaxDevices});
    good = index.starts_with(':') && number.ok();
    if (good) choice.index = static_cast<int>(number.value());
  }
  if (!good)
    fail("--device {}: there are cpu, cuda, cuda:N (the N-th GPU, from 0) and auto", shortened_text(name));
#ifdef BALEEN_CUDA
  if (const std::string why = why_not_cuda(choice.index); !why.empty()) fail("--device {}: {}", name, why);
  return choice;
#else
  fail_without_cuda(choice);
#endif
}

GpuGroup usable_gpus() {
  GpuGroup group;
#ifdef BALEEN_CUDA
  const int count = num_cuda_devices();
  for (int index = 0; index < count; ++index) {
    if (!why_not_cuda(index).empty()) continue;
    const std::string name = cuda_name(index);
    if (group.gpus.empty()) group.name = name;
    const bool reaches_all = std::ranges::all_of(group.gpus, [&](const DeviceChoice& other) {
      return can_access_memory(index, other.index) && can_access_memory(other.index, index);
    });
    if (name == group.name && reaches_all) group.gpus.push_back({DeviceKind::kCuda, index});
  }
#endif
  return group;
}

std::string device_name(const DeviceChoice& device) {
  return device.kind == DeviceKind::kCpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

DeviceChoice device_like(bool is_cpu) { return {is_cpu ? DeviceKind::kCpu : DeviceKind::kCuda, 0}; }

DeviceTraits device_traits(const DeviceChoice& device, int num_threads) {
  return device.kind == DeviceKind::kCpu ? cpu_traits(num_threads) : hopper_traits();
}

bool knows_scratch(const DeviceTraits& traits) {
#ifdef BALEEN_CUDA
  static_cast<void>(traits);
  return true;
#else
  return traits.shares_host_memory;
#endif
}

std::int64_t scratch_bytes(const DeviceTraits& traits, const StepShape& shape) {
  if (traits.shares_host_memory) return cpu_variants(Operations()).scratch_bytes(shape, traits);
#ifdef BALEEN_CUDA
  return sm90::variants().scratch_bytes(shape, traits);
#else
  return 0;
#endif
}

std::vector<VariantVerdict> variant_verdicts(const DeviceTraits& traits,
                                             const std::vector<ForcedVariant>& forced,
                                             const OperationSequence& sequence, const void* const* args) {
  const auto of = [&](auto table) {
    return verdicts(VariantChoice(std::move(table), traits, forced), sequence, args);
  };
  if (traits.shares_host_memory) return of(cpu_variants(Operations()));
#ifdef BALEEN_CUDA
  return of(sm90::variants());
#else
  return {};
#endif
}

DeviceCeilings measure_device_ceilings(const DeviceChoice& choice) {
  if (choice.kind == DeviceKind::kCpu)
    fail("device ceilings: only of CUDA devices; hardware/ measures the CPU's");
#ifdef BALEEN_CUDA
  return measure_cuda_ceilings(choice.index);
#else
  fail_without_cuda(choice);
#endif
}

void prepare_shared_devices() {
#ifdef BALEEN_CUDA
  prepare_shared_gpus();
#endif
}

std::shared_ptr<const PeerMemory> make_peer_memory(std::span<const DeviceChoice> devices,
                                                   std::chrono::milliseconds longest_wait) {
  if (devices.empty() || devices.front().kind == DeviceKind::kCpu) return nullptr;
#ifdef BALEEN_CUDA
  std::vector<int> gpus;
  for (const DeviceChoice& device : devices) gpus.push_back(device.index);
  return std::make_shared<const PeerMemory>(gpus, longest_wait);
#else
  static_cast<void>(longest_wait);
  fail_without_cuda(devices.front());
#endif
}

const PeerRank* peer_rank([[maybe_unused]] const PeerMemory* peers, [[maybe_unused]] std::int64_t rank) {
#ifdef BALEEN_CUDA
  if (peers != nullptr) return &peers->rank(rank);
#endif
  return nullptr;
}

std::shared_ptr<PeerProcess> join_peer_processes(const DeviceChoice& device,
                                                 [[maybe_unused]] std::int64_t rank,
                                                 [[maybe_unused]] std::int64_t num_ranks,
                                                 [[maybe_unused]] Communicator& host,
                                                 [[maybe_unused]] std::chrono::milliseconds longest_wait) {
  if (device.kind == DeviceKind::kCpu) return nullptr;
#ifdef BALEEN_CUDA
  return std::make_shared<PeerProcess>(device.index, rank, num_ranks, host, longest_wait);
#else
  fail_without_cuda(device);
#endif
}

const PeerRank* peer_rank([[maybe_unused]] const PeerProcess* process) {
#ifdef BALEEN_CUDA
  if (process != nullptr) return &process->rank();
#endif
  return nullptr;
}

void leave_peer_processes([[maybe_unused]] PeerProcess* process) {
#ifdef BALEEN_CUDA
  if (process != nullptr) process->close();
#endif
}

std::string why_not_nccl() {
#ifdef BALEEN_CUDA
  return why_not_nccl_library();
#else
  return "NCCL: this program was built without CUDA";
#endif
}

#ifdef BALEEN_CUDA
struct NcclConnection {
  NcclConnection(int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
                 std::chrono::milliseconds longest_wait)
      : nccl(gpu, rank, num_ranks, host, longest_wait), peers(nccl) {}
  NcclRank nccl;
  PeerRank peers;
};
#endif

std::shared_ptr<const NcclConnection> join_by_nccl(const DeviceChoice& device,
                                                   [[maybe_unused]] std::int64_t rank,
                                                   [[maybe_unused]] std::int64_t num_ranks,
                                                   [[maybe_unused]] Communicator& host,
                                                   [[maybe_unused]] std::chrono::milliseconds longest_wait) {
  BALEEN_CHECK(device.kind == DeviceKind::kCuda);
#ifdef BALEEN_CUDA
  return std::make_shared<const NcclConnection>(device.index, rank, num_ranks, host, longest_wait);
#else
  fail_without_cuda(device);
#endif
}

const PeerRank* peer_rank([[maybe_unused]] const NcclConnection* connection) {
#ifdef BALEEN_CUDA
  if (connection != nullptr) return &connection->peers;
#endif
  return nullptr;
}

std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceOptions& options) {
  if (choice.kind == DeviceKind::kCpu) {
    auto device =
        std::make_unique<CpuDevice>(options.num_threads, options.scratch_bytes, options.forced_variants);
    device->connect(options.connection.communicator, options.connection.steps);
    return device;
  }
#ifdef BALEEN_CUDA
  auto device = std::make_unique<CudaDevice>(choice.index, options);
  if (const DeviceConnection& to = options.connection; to.communicator != nullptr) {
    BALEEN_CHECK(to.peers != nullptr);
    device->connect(*to.peers, *to.communicator, to.steps);
  }
  return device;
#else
  fail_without_cuda(choice);
#endif
}

}  // namespace baleen
