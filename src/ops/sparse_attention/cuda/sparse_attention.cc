// Attention on the device: what the arguments say, checked, in the form that kernels read.
#include <bit>

#include "base/check.h"
#include "cuda/device_batch_rows.h"
#include "ops/sparse_attention/cuda/attention_launch.h"
#include "ops/sparse_attention/cuda/sparse_attention.h"

namespace baleen::BALEEN_ARCH {
namespace {

RowPool row_pool(const LatentPool& pool) {
  if (pool.base == nullptr) return {};
  BALEEN_CHECK(pool.rows_per_page > 0 && std::has_single_bit(static_cast<unsigned>(pool.rows_per_page)));
  return {pool.base, pool.page_stride_bytes, std::countr_zero(static_cast<unsigned>(pool.rows_per_page))};
}

/// Of window and entries, which are V4.1's both or neither.
RowForm row_form(const SparseAttentionArgs& args) {
  const LatentFormat& window = args.window.format;
  const auto is = [](const LatentFormat& format, GroupedCodes codes) {
    return format.has_groups() && format.grouped->codes == codes && format.grouped->width == format.width();
  };
  if (!window.has_groups()) {
    BALEEN_CHECK(args.ratio == 0 || !args.compressed.format.has_groups());
    return window.layout == LatentLayout::kV32 ? RowForm::kV32 : RowForm::kV4;
  }
  BALEEN_CHECK(is(window, GroupedCodes::kFp8));
  BALEEN_CHECK(args.ratio == 0 || is(args.compressed.format, GroupedCodes::kFp4));
  return RowForm::kV41;
}

/// All but the rotation.
AttentionLaunch describe(const SparseAttentionArgs& args, const CudaContext& context) {
  const LatentFormat& format = args.window.format;
  BALEEN_CHECK(args.precision == Precision::kReleased && format.precision == Precision::kReleased);
  BALEEN_CHECK_EQ(args.out.extent(0), args.q.extent(0));
  BALEEN_CHECK_EQ(args.out.extent(1), args.q.extent(1));
  BALEEN_CHECK_EQ(args.out.extent(2), format.value_width());
  BALEEN_CHECK_LE(args.first_row + args.q.extent(0), context.batch.num_rows);
  BALEEN_CHECK_EQ(args.q.extent(2), format.width());
  const RowForm form = row_form(args);
  BALEEN_CHECK(form == RowForm::kV41 ||
               format.nope % (form == RowForm::kV32 ? kV32Group : kLatentGroup) == 0);
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.sink.size()), args.q.extent(1));
  BALEEN_CHECK(args.ratio == 0 || args.compressed.base != nullptr);
  BALEEN_CHECK(!args.selects() || args.selected.extent(0) == args.q.extent(0));

  constexpr float kLog2E = 1.44269504F;
  const auto q = args.q.bf16();
  const auto out = args.out.bf16();
  return {.batch = rows_of(context.batch, args.first_row, args.q.extent(0)),
          .window = row_pool(args.window),
          .compressed = row_pool(args.compressed),
          .ratio = args.ratio,
          .selects = args.selects(),
          .selected = args.selected.data(),
          .selected_stride = args.selected.stride(0),
          .top_k = static_cast<int>(args.selected.extent(1)),
          .window_tokens = static_cast<int>(args.window_tokens),
          .q = q.data(),
          .q_row_stride = q.stride(0),
          .q_head_stride = q.stride(1),
          .out = out.data(),
          .out_row_stride = out.stride(0),
          .out_head_stride = out.stride(1),
          .sink = args.sink.data(),
          .scale_log2 = args.scale * kLog2E,
          .num_rows = static_cast<int>(q.extent(0)),
          .num_heads = static_cast<int>(q.extent(1)),
          .nope = format.nope,
          .rope = format.rope,
          .form = form};
}

}  // namespace

AttentionLaunch describe_attention(const SparseAttentionArgs& args, const RopeArgs& rotation,
                                   const CudaContext& context) {
  BALEEN_CHECK(args.window.format.layout == LatentLayout::kV4);
  BALEEN_CHECK(rotation.inverse && rotation.x.address() == args.out.address());
  BALEEN_CHECK_EQ(2 * rotation.cosine.extent(1), args.window.format.rope);
  const auto cosine = rotation.cosine.f32(), sine = rotation.sine.f32();
  BALEEN_CHECK_EQ(cosine.stride(0), sine.stride(0));
  AttentionLaunch launch = describe(args, context);
  launch.cosine = cosine.data();
  launch.sine = sine.data();
  launch.angle_stride = cosine.stride(0);
  return launch;
}

std::optional<Reason> why_not_tiles(const SparseAttentionArgs& args) {
  constexpr std::int64_t kAlign = 16;
  const auto aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % kAlign == 0;
  };
  const auto rows_aligned = [&](std::int64_t elements) {
    return elements * static_cast<std::int64_t>(sizeof(Bf16Bits)) % kAlign == 0;
  };
  const LatentFormat& format = args.window.format;
  if (format.layout != LatentLayout::kV4) return "reads rows of V4's layout; these are V3.2's";
  if (format.nope != kTilesNope || format.rope != kTilesRope) return "reads rows of 448 + 64 values";
  if (!aligned(args.window.base) || !aligned(args.compressed.base) ||
      args.window.page_stride_bytes % kAlign != 0 || args.compressed.page_stride_bytes % kAlign != 0) {
    return "reads pages that begin on 16 bytes";
  }
  if (!aligned(args.q.address()) || !aligned(args.out.address()) || !rows_aligned(args.q.stride(0)) ||
      !rows_aligned(args.q.stride(1)) || !rows_aligned(args.out.stride(0)) ||
      !rows_aligned(args.out.stride(1))) {
    return "reads and writes heads that begin on 16 bytes";
  }
  return std::nullopt;
}

std::optional<Reason> why_not_one_pass(const SparseAttentionArgs& args, const RopeArgs& rotation,
                                       const DeviceTraits& /*traits*/) {
  if (args.window.format.layout != LatentLayout::kV4) return "values of V3.2's rows are not rotated";
  if (!rotation.inverse || rotation.x.address() != args.out.address()) return "rotates its own result back";
  return std::nullopt;
}

void attention_any_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context) {
  if (!args.q.empty()) attention_any(describe_attention(args, rotation, context), context);
}

void sparse_attention(const SparseAttentionArgs& args, CudaContext& context) {
  if (!args.q.empty()) attention_any(describe(args, context), context);
}

}  // namespace baleen::BALEEN_ARCH
