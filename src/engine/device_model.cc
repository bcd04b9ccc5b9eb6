#include "engine/device_model.h"

#include <utility>

#include "base/error.h"
#include "base/lost_maps.h"
#include "log/log.h"
#include "model/gpu_formats.h"

namespace baleen {
namespace {

/// Null where `device` reads the host's memory.
std::unique_ptr<DeviceWeights> copy_to(Device& device, const ModelShare& share) {
  if (device.traits().shares_host_memory) return nullptr;
  ThreadPool pool(default_num_threads());
  const GpuFormats formats(share.weights, pool);
  if (!formats.text().empty() && share.layout.rank() == 0) log_line("{}", formats.text());
  const bool has_store = share.plan.experts.num_blocks > 0;
  return std::make_unique<DeviceWeights>(formats.tree(), device.memory(),
                                         has_store ? RoutedExperts::kElsewhere : RoutedExperts::kCopied);
}

/// Routed experts in two memories, which `copy` reads from now on; null where the plan has them in one.
std::unique_ptr<ExpertStore> in_two_memories(Device& device, const ModelShare& share, DeviceWeights* copy) {
  if (copy == nullptr || share.plan.experts.num_blocks == 0) return nullptr;
  auto store = std::make_unique<ExpertStore>(share.weights.blocks, share.plan.experts, device.memory(),
                                             device.host_visible_memory(), device.background_copies(),
                                             share.weights.made);
  store->bind(copy->tree());
  return store;
}

}  // namespace

ModelShare whole_model(const ModelWeights& weights, const EngineOptions& options) {
  const ModelConfig& config = weights.config();
  const StorageFormats formats = detect_formats(config, weights.checkpoint());
  return {.rank = config,
          .weights = weights.tree(),
          .plan = plan_memory(config, formats, options),
          .experts = movable_experts(config, formats, options)};
}

DeviceModel::DeviceModel(ModelShare share, const EngineOptions& options)
    : share_(std::move(share)),
      device_(open_device(options)),
      copy_(copy_to(*device_, share_)),
      experts_(in_two_memories(*device_, share_, copy_.get())) {
  if (copy_ == nullptr && share_.weights.made != nullptr) {
    ThreadPool pool(options.num_threads);
    make_all(share_.weights, pool);
  }
  if (experts() != nullptr) experts()->set_guessing(options.fetch_ahead);
}

std::unique_ptr<Device> DeviceModel::open_device(const EngineOptions& options) {
  MemoryPlan& plan = share_.plan;
  std::unique_ptr<Device> device =
      make_device(options.device, {.num_threads = options.num_threads,
                                   .scratch_bytes = plan.scratch_bytes,
                                   .max_rows = options.max_batch_tokens,
                                   .max_sequences = options.max_sequences,
                                   .max_pages = plan.max_table_pages,
                                   .two_batches = share_.layout.plan().dual_batch_overlap,
                                   .forced_variants = options.forced_variants,
                                   .connection = share_.connection});
  if (auto failed = leave_experts_to_host(plan, share_.experts, options, device->free_bytes()))
    fail("{}", failed->message);
  // In host memory pages become resident one by one; all else is used by the first large step.
  const std::int64_t wanted =
      plan.total_bytes() - (device->traits().shares_host_memory ? plan.page_bytes : 0);
  if (const std::int64_t free_bytes = device->free_bytes(); wanted > free_bytes) {
    fail(
        "this needs {:.2f} GB of {}, where {:.2f} GB are free:\n{}try a smaller ‹context›, ‹chunk› or "
        "‹sequences›",
        1e-9 * static_cast<double>(wanted), device->name(), 1e-9 * static_cast<double>(free_bytes),
        to_text(plan));
  }
  return device;
}

std::optional<ExpertPlaceStats> DeviceModel::expert_places() const {
  const ExpertStore* store = experts();
  if (store == nullptr) return std::nullopt;
  return ExpertPlaceStats{store->placement().counts(), store->counts()};
}

void DeviceModel::check_reads() const {
  check_maps();
  if (const ExpertStore* store = experts()) store->check();
}

}  // namespace baleen
