#include "ops/indexer/indexer.h"

#include "base/check.h"

namespace baleen {

void indexer(const IndexerArgs& args, CpuContext& context) {
  BALEEN_CHECK_EQ(args.q.extent(0), args.batch.num_rows());
  BALEEN_CHECK_EQ(args.q.extent(2), args.keys.format.dim);
  BALEEN_CHECK(args.keys.format.precision == args.precision);
  BALEEN_CHECK(args.head_weights.extent(0) == args.q.extent(0) &&
               args.head_weights.extent(1) == args.q.extent(1));
  BALEEN_CHECK_EQ(args.selected.extent(0), args.q.extent(0));
  BALEEN_CHECK_LE(1, args.selected.extent(1));
  if (context.kernels == Kernels::kReference) {
    indexer_ref(args);
  } else {
    indexer_cpu(args, context);
  }
}

}  // namespace baleen
