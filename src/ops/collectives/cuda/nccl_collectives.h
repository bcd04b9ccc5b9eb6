/// The collectives over NCCL, for ranks of several hosts. Their contracts' sums, in their order: NCCL moves
/// bytes, kernels here add. What arrives first lies in the buffer of `NcclRank`; larger messages go in pieces
/// that fit it, as many on all ranks.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/collectives/all_gather.h"
#include "ops/collectives/all_reduce.h"
#include "ops/collectives/all_to_all.h"
#include "ops/collectives/send.h"
#include "ops/operation/variant.h"

namespace baleen {
class NcclRank;
}

namespace baleen::BALEEN_ARCH {

/// Throws `Error` where the device is not connected to other ranks by NCCL.
[[nodiscard]] const NcclRank& nccl_of(const CudaContext& context, std::string_view operation);

/// Each message whole to everyone, or a part of the sum to each rank and then a gather.
void nccl_all_reduce(const AllReduceArgs& args, CudaContext& context);
void nccl_reduce_scatter(const ReduceScatterArgs& args, CudaContext& context);
void nccl_all_gather(const AllGatherArgs& args, CudaContext& context);
void nccl_all_to_all(const AllToAllArgs& args, CudaContext& context);
void nccl_send(const SendArgs& args, CudaContext& context);
void nccl_receive(const ReceiveArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::AllReduce>> nccl_all_reduce_variants();
[[nodiscard]] std::span<const CudaVariant<ops::ReduceScatter>> nccl_reduce_scatter_variants();
[[nodiscard]] std::span<const CudaVariant<ops::AllGather>> nccl_all_gather_variants();
[[nodiscard]] std::span<const CudaVariant<ops::AllToAll>> nccl_all_to_all_variants();
[[nodiscard]] std::span<const CudaVariant<ops::Send>> nccl_send_variants();
[[nodiscard]] std::span<const CudaVariant<ops::Receive>> nccl_receive_variants();

}  // namespace baleen::BALEEN_ARCH
