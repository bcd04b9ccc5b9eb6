// The variants of the collectives.

#include <array>

#include "ops/collectives/cuda/collectives.h"
#include "ops/collectives/cuda/exchange.h"
#include "ops/collectives/cuda/nccl_collectives.h"

namespace baleen::BALEEN_ARCH {
namespace {

constexpr Reason kWholeVectors = "moves 16 bytes at a time: rows have a multiple of that";
constexpr Reason kDense = "takes dense arrays on 16 bytes";

template <class View>
bool aligned(const View& view) {
  return view.dense() && reinterpret_cast<std::uintptr_t>(view.address()) % kVectorBytes == 0;
}

template <class View>
bool whole_rows(const View& view, std::int64_t parts = 1) {
  const std::int64_t bytes = view.extent(1) * size_of(view.element_type());
  return bytes % (parts * kVectorBytes) == 0;
}

template <class Args>
std::optional<Reason> why_not_sum(const Args& args, const DeviceTraits& /*traits*/) {
  // Both the rows of float32 sums and those of their BF16 results.
  if (args.x.extent(1) % 8 != 0) return kWholeVectors;
  return aligned(args.x) && aligned(args.y) ? std::nullopt : std::optional(kDense);
}

std::optional<Reason> why_not_gather(const AllGatherArgs& args, const DeviceTraits& /*traits*/) {
  if (!whole_rows(args.y) || !whole_rows(args.x)) return kWholeVectors;
  return aligned(args.x) && aligned(args.y) ? std::nullopt : std::optional(kDense);
}

std::optional<Reason> why_not_all_to_all(const AllToAllArgs& args, const DeviceTraits& /*traits*/) {
  if (!whole_rows(args.y)) return kWholeVectors;
  return aligned(args.x) && aligned(args.y) ? std::nullopt : std::optional(kDense);
}

template <class View>
std::optional<Reason> why_not_whole(const View& view) {
  if (view.size() * size_of(view.element_type()) % kVectorBytes != 0) return kWholeVectors;
  return aligned(view) ? std::nullopt : std::optional(kDense);
}

std::optional<Reason> why_not_send(const SendArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_whole(args.x);
}

std::optional<Reason> why_not_receive(const ReceiveArgs& args, const DeviceTraits& /*traits*/) {
  return why_not_whole(args.y);
}

constexpr std::string_view kPeers = BALEEN_ARCH_NAME "/peers", kNccl = BALEEN_ARCH_NAME "/nccl";

}  // namespace

std::span<const CudaVariant<ops::AllReduce>> all_reduce_variants() {
  static constexpr std::array<CudaVariant<ops::AllReduce>, 1> kVariants{
      {{.name = kPeers, .run = all_reduce, .why_not = why_not_sum<AllReduceArgs>}}};
  return kVariants;
}

std::span<const CudaVariant<ops::ReduceScatter>> reduce_scatter_variants() {
  static constexpr std::array<CudaVariant<ops::ReduceScatter>, 1> kVariants{
      {{.name = kPeers, .run = reduce_scatter, .why_not = why_not_sum<ReduceScatterArgs>}}};
  return kVariants;
}

std::span<const CudaVariant<ops::AllGather>> all_gather_variants() {
  static constexpr std::array<CudaVariant<ops::AllGather>, 1> kVariants{
      {{.name = kPeers, .run = all_gather, .why_not = why_not_gather}}};
  return kVariants;
}

std::span<const CudaVariant<ops::AllToAll>> all_to_all_variants() {
  static constexpr std::array<CudaVariant<ops::AllToAll>, 1> kVariants{
      {{.name = kPeers, .run = all_to_all, .why_not = why_not_all_to_all}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Send>> send_variants() {
  static constexpr std::array<CudaVariant<ops::Send>, 1> kVariants{
      {{.name = kPeers, .run = send, .why_not = why_not_send}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Receive>> receive_variants() {
  static constexpr std::array<CudaVariant<ops::Receive>, 1> kVariants{
      {{.name = kPeers, .run = receive, .why_not = why_not_receive}}};
  return kVariants;
}

std::span<const CudaVariant<ops::AllReduce>> nccl_all_reduce_variants() {
  static constexpr std::array<CudaVariant<ops::AllReduce>, 1> kVariants{
      {{.name = kNccl, .run = nccl_all_reduce, .why_not = why_not_sum<AllReduceArgs>}}};
  return kVariants;
}

std::span<const CudaVariant<ops::ReduceScatter>> nccl_reduce_scatter_variants() {
  static constexpr std::array<CudaVariant<ops::ReduceScatter>, 1> kVariants{
      {{.name = kNccl, .run = nccl_reduce_scatter, .why_not = why_not_sum<ReduceScatterArgs>}}};
  return kVariants;
}

std::span<const CudaVariant<ops::AllGather>> nccl_all_gather_variants() {
  static constexpr std::array<CudaVariant<ops::AllGather>, 1> kVariants{
      {{.name = kNccl, .run = nccl_all_gather, .why_not = why_not_gather}}};
  return kVariants;
}

std::span<const CudaVariant<ops::AllToAll>> nccl_all_to_all_variants() {
  static constexpr std::array<CudaVariant<ops::AllToAll>, 1> kVariants{
      {{.name = kNccl, .run = nccl_all_to_all, .why_not = why_not_all_to_all}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Send>> nccl_send_variants() {
  static constexpr std::array<CudaVariant<ops::Send>, 1> kVariants{
      {{.name = kNccl, .run = nccl_send, .why_not = why_not_send}}};
  return kVariants;
}

std::span<const CudaVariant<ops::Receive>> nccl_receive_variants() {
  static constexpr std::array<CudaVariant<ops::Receive>, 1> kVariants{
      {{.name = kNccl, .run = nccl_receive, .why_not = why_not_receive}}};
  return kVariants;
}

}  // namespace baleen::BALEEN_ARCH
