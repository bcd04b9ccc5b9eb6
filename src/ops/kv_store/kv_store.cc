#include "ops/kv_store/kv_store.h"

#include "base/check.h"

namespace baleen {

void kv_store(const KvStoreArgs& args, CpuContext& context) {
  BALEEN_CHECK_EQ(args.kv.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.window.format.width(), args.kv.extent(1));
  BALEEN_CHECK_EQ(static_cast<std::int64_t>(args.weight.size()), args.kv.extent(1));
  BALEEN_CHECK_EQ(args.window.format.rope, 2 * args.cosine.extent(1));
  if (context.kernels == Kernels::kReference) {
    kv_store_ref(args);
  } else {
    kv_store_cpu(args, context);
  }
}

}  // namespace baleen
