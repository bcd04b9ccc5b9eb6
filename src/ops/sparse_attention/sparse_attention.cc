#include "ops/sparse_attention/sparse_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace baleen::ops {
namespace {

std::int64_t scratch_bytes(const StepShape& shape, const DeviceTraits& traits) {
  return sparse_attention_scratch_bytes(shape.num_attention_heads, shape.head_dim, traits.num_units);
}

std::optional<Reason> why_not_simd(const SparseAttentionArgs& args, const DeviceTraits& /*traits*/) {
  if (args.window.format.layout != LatentLayout::kV32) return std::nullopt;
  return "reads rows of V4's layout; these are V3.2's";
}

}  // namespace

CallShape SparseAttention::shape(const SparseAttentionArgs& args) {
  return {.num_rows = args.q.extent(0),
          .detail = fmt::format("{} heads, ratio {}", args.q.extent(1), args.ratio),
          .num_heads = args.q.extent(1)};
}

void SparseAttention::check(const SparseAttentionArgs& args) {
  const LatentFormat& format = args.window.format;
  BALEEN_CHECK_EQ(args.out.extent(0), args.q.extent(0));
  BALEEN_CHECK_EQ(args.out.extent(1), args.q.extent(1));
  BALEEN_CHECK_EQ(args.out.extent(2), format.value_width());
  BALEEN_CHECK_EQ(args.batch.num_rows(), args.q.extent(0));
  BALEEN_CHECK_EQ(args.q.extent(2), format.width());
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.sink.size()), args.q.extent(1));
  BALEEN_CHECK(args.ratio == 0 || args.compressed.base != nullptr);
  BALEEN_CHECK(args.ratio == 0 || args.compressed.format.width() == format.width());
  BALEEN_CHECK(!args.selects() || args.selected.extent(0) == args.q.extent(0));
  BALEEN_CHECK(args.ratio == 0 || std::ranges::none_of(args.batch.slices, &SequenceSlice::sees_ahead));
}

void SparseAttention::accesses(const SparseAttentionArgs& args, Accesses& to) {
  to.read(args.q, args.window, args.compressed, args.selected, args.sink).write(args.out);
}

std::span<const CpuVariant<SparseAttention>> SparseAttention::cpu_variants() {
  static constexpr std::array<CpuVariant<SparseAttention>, 2> kVariants{
      {{.name = kSimdVariant,
        .run = sparse_attention_cpu,
        .why_not = why_not_simd,
        .scratch_bytes = scratch_bytes},
       {.name = kReferenceVariant, .run = [](const SparseAttentionArgs& args, CpuContext& /*context*/) {
          sparse_attention_ref(args);
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
