/// Devices by name.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/rank_group.h"
#include "device/device.h"
#include "device/device_kind.h"
#include "ops/operation/forced_variants.h"
#include "ops/operation/variant_report.h"

namespace baleen {

class PeerMemory;
class PeerProcess;
class PeerRank;
struct NcclConnection;

/// Before any function that asks for a GPU, in a process some of whose ranks will share one.
void prepare_shared_devices();

/// What lets GPUs of this process work as ranks: memory that each has for messages of the others. Rank i runs
/// on devices[i]. Null for CPUs. Throws `Error` where two of them have no access to each other's memory.
[[nodiscard]] std::shared_ptr<const PeerMemory> make_peer_memory(std::span<const DeviceChoice> devices,
                                                                 std::chrono::milliseconds longest_wait);
[[nodiscard]] const PeerRank* peer_rank(const PeerMemory* peers, std::int64_t rank);

/// The same for ranks that are processes of one host, each on a GPU of its own: all call it at the same time.
/// `host` outlives it. Null for CPUs. Throws `Error` where they cannot reach each other.
[[nodiscard]] std::shared_ptr<PeerProcess> join_peer_processes(const DeviceChoice& device, std::int64_t rank,
                                                               std::int64_t num_ranks, Communicator& host,
                                                               std::chrono::milliseconds longest_wait);
[[nodiscard]] const PeerRank* peer_rank(const PeerProcess* process);
/// All ranks, before they free their memory.
void leave_peer_processes(PeerProcess* process);

/// Why messages cannot go by NCCL here, with what to install; empty: they can.
[[nodiscard]] std::string why_not_nccl();
/// The same by NCCL, for ranks that are threads or processes of any hosts, each on a GPU of its own: all call
/// it at the same time, and it outlives the device. Throws `Error` where there is no NCCL, and as `NcclRank`.
[[nodiscard]] std::shared_ptr<const NcclConnection> join_by_nccl(const DeviceChoice& device,
                                                                 std::int64_t rank, std::int64_t num_ranks,
                                                                 Communicator& host,
                                                                 std::chrono::milliseconds longest_wait);
[[nodiscard]] const PeerRank* peer_rank(const NcclConnection* connection);

/// How a device reaches those of other ranks; everything outlives the device.
struct DeviceConnection {
  Communicator* communicator = nullptr;  ///< through the host; null: there is one rank
  const PeerRank* peers = nullptr;       ///< a GPU's
  RankGroup steps;  ///< ranks that have batches of their own in each step, itself included
};

struct DeviceOptions {
  int num_threads = 1;             ///< CPU
  std::int64_t scratch_bytes = 0;  ///< of the largest operation
  std::int64_t max_rows = 1;       ///< of a step
  std::int64_t max_sequences = 1;  ///< of a step
  std::int64_t max_pages = 1;      ///< in one sequence's page table
  bool two_batches = false;        ///< steps may be two batches (StepBatches::begin)
  std::vector<ForcedVariant> forced_variants;
  DeviceConnection connection;
};

/// What a CUDA device can do at most, measured. Throws `Error` as make_device does.
struct DeviceCeilings {
  std::string name;
  double bytes_per_second = 0;  ///< of a copy, read and written
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
