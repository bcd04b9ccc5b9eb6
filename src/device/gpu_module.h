/// The module of an architecture: its kernels, and what drives a GPU that runs them. The program links
/// neither; it loads `baleen_sm90.so` where a GPU of that architecture is used or planned for.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "device/gpu_architecture.h"
#include "device/make_device.h"
#include "ops/operation/forced_variants.h"
#include "ops/operation/step_shape.h"
#include "ops/operation/variant_report.h"

namespace baleen {

/// What a module does. The functions that name a GPU throw `Error` where the GPU cannot do it.
class GpuModule {
 public:
  GpuModule() = default;
  GpuModule(const GpuModule&) = delete;
  GpuModule& operator=(const GpuModule&) = delete;
  virtual ~GpuModule() = default;

  /// Version of the compiler's toolkit: "13.0".
  [[nodiscard]] virtual std::string toolkit() const = 0;

  // What needs no GPU.

  /// `scratch_bytes` and `variant_verdicts` of make_device.h.
  [[nodiscard]] virtual std::int64_t scratch_bytes(const StepShape& shape,
                                                   const DeviceTraits& traits) const = 0;
  [[nodiscard]] virtual std::vector<VariantVerdict> verdicts(const DeviceTraits& traits,
                                                             const std::vector<ForcedVariant>& forced,
                                                             const OperationSequence& sequence,
                                                             const void* const* args) const = 0;
  /// Why messages cannot go by NCCL here; empty: they can.
  [[nodiscard]] virtual std::string why_not_nccl() const = 0;

  // What does.

  /// Why the module cannot use the GPUs that a driver has which is new enough (gpu_driver.h). Empty: it can.
  [[nodiscard]] virtual std::string why_not() const = 0;
  /// Whether kernels of one GPU reach the memory of another.
  [[nodiscard]] virtual bool can_access_memory(int gpu, int other) const = 0;
  [[nodiscard]] virtual DeviceCeilings measure_ceilings(int gpu) const = 0;
  /// `make_peer_memory`, `join_peer_processes` and `join_by_nccl` of make_device.h.
  [[nodiscard]] virtual std::shared_ptr<DevicePeers> peers_of_threads(
      std::span<const int> gpus, GpuMessages messages, std::chrono::milliseconds longest_wait) const = 0;
  [[nodiscard]] virtual std::shared_ptr<DevicePeers> peers_of_processes(
      int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
      std::chrono::milliseconds longest_wait) const = 0;
  [[nodiscard]] virtual std::shared_ptr<DevicePeers> peers_by_nccl(
      int gpu, std::int64_t rank, std::int64_t num_ranks, Communicator& host,
      std::chrono::milliseconds longest_wait) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Device> make_device(int gpu, const DeviceOptions& options) const = 0;
};

/// What a module exports by these names. The first is asked before anything else: a module is used only where
/// it says what the program says, because the two share types. It is a digest of the sources that make these.
using GpuModuleSources = const char* (*)();
inline constexpr const char* kGpuModuleSources = "baleen_gpu_module_sources";
using OpenGpuModule = const GpuModule* (*)();
inline constexpr const char* kOpenGpuModule = "baleen_gpu_module";

/// The digest that this program was built of.
[[nodiscard]] const char* gpu_module_sources();

struct LoadedGpuModule {
  const GpuModule* module = nullptr;
  std::string why_not;  ///< a sentence with what to do; empty: it is loaded
  std::string path = {};
};

/// "baleen_sm90.so"
[[nodiscard]] std::string module_name(const GpuArchitecture& row);

/// Loads the module of a row at the first call, for good; later calls say the same. Any thread.
[[nodiscard]] const LoadedGpuModule& gpu_module(const GpuArchitecture& row);

}  // namespace baleen
