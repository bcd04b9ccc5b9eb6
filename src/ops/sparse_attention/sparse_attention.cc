#include "ops/sparse_attention/sparse_attention.h"

#include "base/check.h"

namespace baleen {

void sparse_attention(const SparseAttentionArgs& args, CpuContext& context) {
  const LatentFormat& format = args.window.format;
  BALEEN_CHECK_EQ(args.out.extent(0), args.q.extent(0));
  BALEEN_CHECK_EQ(args.out.extent(1), args.q.extent(1));
  BALEEN_CHECK_EQ(args.out.extent(2), format.value_width());
  BALEEN_CHECK_EQ(args.batch.num_rows(), args.q.extent(0));
  BALEEN_CHECK_EQ(args.q.extent(2), format.width());
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.sink.size()), args.q.extent(1));
  BALEEN_CHECK(args.ratio == 0 || args.compressed.base != nullptr);
  BALEEN_CHECK(args.ratio != 4 || args.selected.extent(0) == args.q.extent(0));
  if (context.kernels == Kernels::kReference || format.layout == LatentLayout::kV32) {
    sparse_attention_ref(args);
  } else {
    sparse_attention_cpu(args, context);
  }
}

}  // namespace baleen
