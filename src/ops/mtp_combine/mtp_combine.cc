#include "ops/mtp_combine/mtp_combine.h"

#include <array>

#include "numeric/bf16.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {
namespace {

template <class T>
void combine_row(const MtpCombineArgsOf<T>& args, std::int64_t row) {
  const bool exact = args.precision == Precision::kExact;
  for (std::int64_t stream = 0; stream < args.streams.extent(1); ++stream) {
    for (std::int64_t i = 0; i < args.streams.extent(2); ++i) {
      const T sum = args.embedded(row, i) + args.streams(row, stream, i);
      args.streams(row, stream, i) = exact ? sum : round_bf16(static_cast<float>(sum));
    }
  }
}

}  // namespace

void mtp_combine_ref(const MtpCombineArgs& args, CpuContext& context) {
  context.pool.parallel_for(args.streams.extent(0), [&](std::int64_t row, int) { combine_row(args, row); });
}

void mtp_combine_f64(const MtpCombineArgsOf<double>& args) {
  for (std::int64_t row = 0; row < args.streams.extent(0); ++row) combine_row(args, row);
}

OpCost mtp_combine_cost(const MtpCombineArgs& args) {
  OpCost cost;
  cost.scalar_ops = static_cast<double>(args.streams.size());
  cost.read_bytes = bytes_of(args.streams) + bytes_of(args.embedded);
  cost.write_bytes = bytes_of(args.streams);
  return cost;
}

/// The streams' gradients stay as they are; the embedding's is their sum.
OpCost mtp_combine_backward_cost(const MtpCombineArgs& args) {
  OpCost cost;
  cost.scalar_ops = static_cast<double>(args.streams.size());
  cost.read_bytes = bytes_of(args.streams);
  cost.write_bytes = bytes_of(args.embedded);
  return cost;
}

}  // namespace baleen

namespace baleen::ops {

CallShape MtpCombine::shape(const MtpCombineArgs& args) { return {.num_rows = args.streams.extent(0)}; }

void MtpCombine::accesses(const MtpCombineArgs& args, Accesses& to) {
  to.read(args.embedded).update(args.streams);
}

std::span<const CpuVariant<MtpCombine>> MtpCombine::cpu_variants() {
  static constexpr std::array<CpuVariant<MtpCombine>, 1> kVariants{
      {{.name = kReferenceVariant, .run = mtp_combine_ref}}};
  return kVariants;
}

}  // namespace baleen::ops
