#include "trainer/optimiser/tensor_homes.h"

#include <algorithm>
#include <numeric>

#include "trainer/optimiser/newton_schulz.h"

namespace baleen {
namespace {

bool has_update(const ParameterGroup& group) {
  return group.rule == UpdateRule::kMuon || group.rule == UpdateRule::kAdamW;
}

}  // namespace

double update_flops(const TensorSpec& tensor, const ParameterGroup& group) {
  if (!has_update(group)) return 0;
  if (group.rule == UpdateRule::kAdamW) return 10 * static_cast<double>(tensor.num_elements());
  double flops = 0;
  for (const std::int64_t rows : group.matrix_rows) flops += newton_schulz_flops(rows, tensor.shape[1]);
  return flops;
}

TensorHomes tensor_homes(const std::vector<TensorSpec>& table, const std::vector<ParameterGroup>& groups,
                         std::int64_t num_ranks) {
  std::vector<std::size_t> order(table.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return update_flops(table[i], groups[i]); });
  TensorHomes homes{.of_tensor = std::vector<std::int64_t>(table.size(), -1),
                    .of_rank = std::vector<std::vector<std::size_t>>(static_cast<std::size_t>(num_ranks))};
  std::vector<double> flops(homes.of_rank.size());
  for (const std::size_t i : order) {
    if (!has_update(groups[i])) continue;
    const auto least = static_cast<std::size_t>(std::ranges::min_element(flops) - flops.begin());
    homes.of_tensor[i] = static_cast<std::int64_t>(least);
    homes.of_rank[least].push_back(i);
    flops[least] += update_flops(table[i], groups[i]);
  }
  for (std::vector<std::size_t>& tensors : homes.of_rank)
    std::ranges::stable_sort(tensors, std::ranges::greater{},
                             [&](std::size_t i) { return table[i].num_elements(); });
  return homes;
}

}  // namespace baleen
