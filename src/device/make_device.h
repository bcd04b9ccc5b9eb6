/// Devices by name.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/rank_group.h"
#include "device/device.h"
#include "device/device_choice.h"
#include "ops/operation/forced_variants.h"
#include "ops/operation/variant_report.h"

namespace baleen {

class PeerRank;

/// What lets GPUs of ranks reach each other; outlives their devices.
class DevicePeers {
 public:
  DevicePeers() = default;
  DevicePeers(const DevicePeers&) = delete;
  DevicePeers& operator=(const DevicePeers&) = delete;
  virtual ~DevicePeers() = default;

  /// The end of `rank`, where ranks are threads of this process; else of the one rank that is here.
  [[nodiscard]] virtual const PeerRank* rank(std::int64_t rank) const = 0;
  /// By all ranks, before they free their memory.
  virtual void leave() {}
};

/// Of ranks that are threads of this process, rank i on devices[i]: memory that each has for messages of the
/// others, the host's for kHostMemory. Null for CPUs. Throws `Error` where it is the GPUs' own and two of
/// them have no access to each other's.
[[nodiscard]] std::shared_ptr<DevicePeers> make_peer_memory(std::span<const DeviceChoice> devices,
                                                            GpuMessages messages,
                                                            std::chrono::milliseconds longest_wait);

/// The same for ranks that are processes of one host, each on a GPU of its own: all call it at the same time.
/// `host` outlives it. Null for CPUs. Throws `Error` where they cannot reach each other.
[[nodiscard]] std::shared_ptr<DevicePeers> join_peer_processes(const DeviceChoice& device, std::int64_t rank,
                                                               std::int64_t num_ranks, Communicator& host,
                                                               std::chrono::milliseconds longest_wait);

/// Why messages cannot go by NCCL between such devices, with what to install; empty: they can.
[[nodiscard]] std::string why_not_nccl(const DeviceChoice& device);
/// The same by NCCL, for ranks that are threads or processes of any hosts, each on a GPU of its own: all call
/// it at the same time. Throws `Error` where there is no NCCL, and as `NcclRank`.
[[nodiscard]] std::shared_ptr<DevicePeers> join_by_nccl(const DeviceChoice& device, std::int64_t rank,
                                                        std::int64_t num_ranks, Communicator& host,
                                                        std::chrono::milliseconds longest_wait);

/// How a device reaches those of other ranks; everything outlives the device.
struct DeviceConnection {
  Communicator* communicator = nullptr;  ///< through the host; null: there is one rank
  const PeerRank* peers = nullptr;       ///< a GPU's
  RankGroup steps;  ///< ranks that have batches of their own in each step, itself included
};

struct DeviceOptions {
  int num_threads = 1;             ///< CPU
  std::int64_t scratch_bytes = 0;  ///< what the largest operation takes
  std::int64_t max_rows = 1;       ///< limit of a step
  std::int64_t max_sequences = 1;  ///< limit of a step
  std::int64_t max_pages = 1;      ///< limit of one sequence's page table
  bool two_batches = false;        ///< steps may be two batches (StepBatches::begin)
  /// Of another card, in place of what the GPU says of itself; make_device sets it where the choice has one.
  std::optional<DeviceTraits> imposed_traits;
  std::vector<ForcedVariant> forced_variants;
  DeviceConnection connection;
};

/// What a GPU can do at most, measured. Throws `Error` as make_device does.
struct DeviceCeilings {
  std::string name;
  double bytes_per_second = 0;  ///< what a copy reads and writes together
  double bf16_flops_per_second = 0;
  double fp8_flops_per_second = 0;
};
[[nodiscard]] DeviceCeilings measure_device_ceilings(const DeviceChoice& choice);

/// What a device with these traits, here or not, would make of a call: a verdict for each of its variants,
/// best first, without call and cost. Extents, formats and flags of the arguments are read, their arrays not.
/// Empty where this program has no kernels of such a device. Throws `Error` for forced variants that there
/// are not.
[[nodiscard]] std::vector<VariantVerdict> variant_verdicts(const DeviceTraits& traits,
                                                           const std::vector<ForcedVariant>& forced,
                                                           const OperationSequence& sequence,
                                                           const void* const* args);

/// Throws `Error` when the device cannot be used or has no memory left for its scratch.
[[nodiscard]] std::unique_ptr<Device> make_device(const DeviceChoice& choice, const DeviceOptions& options);

}  // namespace baleen
