#include "trainer/graph/pass_executor.h"

#include "ops/grouped_linear/grouped_linear.h"
#include "ops/hc_head/hc_head.h"
#include "ops/hc_post/hc_post.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/linear/linear.h"
#include "ops/lm_head/lm_head.h"
#include "ops/mtp_combine/mtp_combine.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace baleen {
namespace {

using TrainedOperations = TypeList<ops::HcPre, ops::HcPost, ops::HcHead, ops::RmsNorm, ops::Linear, ops::Rope,
                                   ops::GroupedLinear, ops::MtpCombine, ops::LmHead>;

std::vector<ForcedVariant> forced_variants(bool bf16_products) {
  std::vector<ForcedVariant> forced{{"", std::string(kTrainingVariant)}};
  if (!bf16_products) return forced;
  for (const std::string_view operation : {ops::Linear::kName, ops::GroupedLinear::kName, ops::LmHead::kName})
    forced.push_back({std::string(operation), std::string(kTrainingBf16Variant)});
  return forced;
}

}  // namespace

PassExecutor::PassExecutor(ThreadPool& pool, bool bf16_products)
    : context_{.pool = pool, .scratch = scratch_},
      exact_(cpu_variants(TrainedOperations()), {.num_units = pool.num_threads()}, context_,
             forced_variants(false)),
      bf16_(cpu_variants(TrainedOperations()), {.num_units = pool.num_threads()}, context_,
            forced_variants(true)),
      bf16_products_(bf16_products) {}

}  // namespace baleen
