/// The collectives between GPUs of one host, over peer memory. Their contracts' sums, in their order.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/collectives/all_gather.h"
#include "ops/collectives/all_reduce.h"
#include "ops/collectives/all_to_all.h"
#include "ops/collectives/send.h"
#include "ops/operation/variant.h"

namespace baleen {
class PeerRank;
}

namespace baleen::BALEEN_ARCH {

/// Throws `Error` where the device is not connected to other ranks.
[[nodiscard]] const PeerRank& peers_of(const CudaContext& context, std::string_view operation);

/// Each message whole to everyone, or a part of the sum to each rank and then a gather.
void all_reduce(const AllReduceArgs& args, CudaContext& context);
void reduce_scatter(const ReduceScatterArgs& args, CudaContext& context);
void all_gather(const AllGatherArgs& args, CudaContext& context);
void all_to_all(const AllToAllArgs& args, CudaContext& context);
/// The stream of the sender waits for the receiver's.
void send(const SendArgs& args, CudaContext& context);
void receive(const ReceiveArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::AllReduce>> all_reduce_variants();
[[nodiscard]] std::span<const CudaVariant<ops::ReduceScatter>> reduce_scatter_variants();
[[nodiscard]] std::span<const CudaVariant<ops::AllGather>> all_gather_variants();
[[nodiscard]] std::span<const CudaVariant<ops::AllToAll>> all_to_all_variants();
[[nodiscard]] std::span<const CudaVariant<ops::Send>> send_variants();
[[nodiscard]] std::span<const CudaVariant<ops::Receive>> receive_variants();

}  // namespace baleen::BALEEN_ARCH
