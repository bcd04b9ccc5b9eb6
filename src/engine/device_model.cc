#include "engine/device_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/lost_maps.h"
#include "engine/engine_limits.h"
#include "engine/engram_memory.h"
#include "hardware/machine_memory.h"
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
                                         has_store ? share.experts.staying : kAllBlocks);
}

/// Routed experts of layers in two memories, null where the plan has them in one.
std::unique_ptr<ExpertStore> in_two_memories(Device& device, const ModelShare& share, DeviceWeights* copy) {
  if (copy == nullptr || share.plan.experts.num_blocks == 0) return nullptr;
  return std::make_unique<ExpertStore>(share.weights.blocks, share.plan.experts, device.memory(),
                                       device.host_visible_memory(), device.background_copies(),
                                       share.weights.made);
}

/// By the tokenizer beside the weights, before anything is reserved: with another one all hashes are wrong.
/// Of made-up weights, which lie in no folder, any ids do.
std::vector<TokenId> read_compressed_ids(const ModelShare& share) {
  const ModelConfig& config = share.rank.model();
  if (!config.engram) return {};
  std::error_code ignored;
  if (share.checkpoint.num_files() == 0 &&
      !std::filesystem::is_directory(share.checkpoint.folder(), ignored)) {
    std::vector<TokenId> ids(static_cast<std::size_t>(config.vocab_size));
    for (std::size_t id = 0; id < ids.size(); ++id)
      ids[id] = static_cast<TokenId>(static_cast<std::int64_t>(id) % config.engram->compressed_vocab_size);
    return ids;
  }
  return engram_vocabulary(*config.engram, Tokenizer::load(share.checkpoint.folder()));
}

/// Null where no layer of the rank has a table of n-grams.
std::unique_ptr<EngramStore> open_engram(Device& device, const ModelShare& share,
                                         const EngineOptions& options,
                                         const std::vector<TokenId>& compressed_ids) {
  const ModelConfig& config = share.rank.model();
  if (!share.plan.engram_place) return nullptr;
  EngramHashes hashes(config, compressed_ids);
  const EngramPlace place = *share.plan.engram_place;
  Memory& memory = place == EngramPlace::kHost ? device.host_visible_memory() : device.memory();
  const auto load = [&] {
    return std::make_shared<const EngramTables>(stored_engram_tables(config, share.checkpoint), place,
                                                memory);
  };
  const bool is_shared = place == EngramPlace::kHost && share.host_tables != nullptr;
  auto tables = is_shared ? share.host_tables->get(load) : load();
  return std::make_unique<EngramStore>(std::move(hashes), std::move(tables),
                                       device.traits().padded_rows(buffered_rows(options)), device.memory(),
                                       device.host_visible_memory());
}

/// By less, computing on the host is not worth its cores.
constexpr double kLeastGain = 1.1;

/// Why the host computes no experts of this model here; empty: it can.
std::string why_not_computed(const ModelShare& share, const EngineOptions& options) {
  if (options.device.is_cpu()) return "they lie where they are computed";
  if (!options.parallel.is_one_rank()) return "there are several ranks";
  if (options.precision != Precision::kReleased) return "it is for released precision";
  // A draft head's blocks are added up in the same order.
  for (std::int64_t block = 0; block < share.experts.staying.end; ++block) {
    const WeightFormat format =
        share.weights.blocks[static_cast<std::size_t>(block)].moe.routed.front().w1.format;
    if (format != WeightFormat::kFp4) {
      return fmt::format("routed experts of block {} are {}, and the host computes FP4 alone", block,
                         weight_format_name(format));
    }
  }
  return "";
}

}  // namespace

ModelShare whole_model(const ModelWeights& weights, const EngineOptions& options) {
  const ModelConfig& config = weights.config();
  const StorageFormats formats = detect_formats(config, weights.checkpoint());
  return {.rank = config,
          .weights = weights.tree(),
          .plan = plan_memory(config, formats, options),
          .experts = movable_experts(config, formats, options),
          .checkpoint = weights.checkpoint()};
}

DeviceModel::DeviceModel(ModelShare share, const EngineOptions& options)
    : share_(std::move(share)),
      compressed_ids_(read_compressed_ids(share_)),
      device_(open_device(options)),
      copy_(copy_to(*device_, share_)),
      experts_(in_two_memories(*device_, share_, copy_.get())),
      engram_(open_engram(*device_, share_, options, compressed_ids_)) {
  if (copy_ == nullptr && share_.weights.made != nullptr) {
    ThreadPool pool(options.num_threads);
    make_all(share_.weights, pool);
  }
  settle_host_experts(options);
  if (experts() == nullptr) return;
  experts()->set_guessing(options.fetch_ahead);
  experts()->bind(copy_->tree());
}

void DeviceModel::settle_host_experts(const EngineOptions& options) {
  ExpertStore* const store = experts();
  if (options.imposed_link_rate) {
    if (store == nullptr) fail("‹link rate› slows copies of experts from the host, and none lie there");
    store->impose_link(*options.imposed_link_rate);
    log_line("copies of chosen experts are slowed to {:.1f} GB/s", 1e-9 * *options.imposed_link_rate);
  }
  if (options.host_experts == HostExpertsMode::kFetch) return;
  const std::string why_not = why_not_computed(share_, options);
  if (options.host_experts == HostExpertsMode::kCompute) {
    if (!why_not.empty()) fail("‹host experts› compute: {}; leave it out", why_not);
    expert_sums_ = ExpertSums::kStated;
  }
  if (store == nullptr || !why_not.empty()) return;
  expert_sums_ = ExpertSums::kStated;  // whatever is measured, which may be something else the next time
  const HostExpertTimes times =
      store->measure_host(static_cast<float>(config().swiglu_limit), std::max(1, options.num_threads - 1));
  const ExpertCounts& counts = share_.plan.experts;
  const std::int32_t num_pieces = num_fetch_pieces(share_.experts.block_bytes);
  const double chosen_away = static_cast<double>(counts.num_selected) * counts.share_away();
  const double gain = gain_of_computing(std::max(1L, std::lround(chosen_away)), num_pieces, times);
  const std::string seen = fmt::format(
      "an expert takes {:.0f} us to compute, where it takes {:.0f} us to fetch; {:.2f}x as fast together",
      1e-3 * times.compute_expert, 1e-3 * times.fetch_piece * num_pieces, gain);
  if (options.host_experts == HostExpertsMode::kAuto && gain < kLeastGain) {
    log_line("experts away from the GPU are fetched, not computed: {}", seen);
    return;
  }
  store->compute_on_host(times);
  log_line("experts away from the GPU are fetched or computed by {} of the host's cores: {}",
           std::max(1, options.num_threads - 1), seen);
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
  const std::string also_taken = device->taken_memory().empty() ? "" : "\n" + device->taken_memory();
  if (auto failed = leave_experts_to_host(plan, share_.experts, options, device->free_bytes()))
    fail("{}{}", failed->message, also_taken);
  if (auto failed = place_tables(*device, options)) fail("{}{}", failed->message, also_taken);
  // In host memory pages become resident one by one; all else is used by the first large step.
  const std::int64_t wanted =
      plan.total_bytes() - (device->traits().shares_host_memory ? plan.page_bytes : 0);
  if (const std::int64_t free_bytes = device->free_bytes(); wanted > free_bytes) {
    fail(
        "this needs {:.2f} GB of {}, where {:.2f} GB are free:\n{}try a smaller ‹context›, ‹chunk› or "
        "‹sequences›{}",
        1e-9 * static_cast<double>(wanted), device->name(), 1e-9 * static_cast<double>(free_bytes),
        to_text(plan), also_taken);
  }
  return device;
}

std::optional<Failure> DeviceModel::place_tables(const Device& device, const EngineOptions& options) {
  MemoryPlan& plan = share_.plan;
  const std::int64_t num_ranks = std::max<std::int64_t>(1, share_.layout.plan().num_devices);
  const std::int64_t free_on_host = available_memory_bytes() - num_ranks * plan.host_expert_bytes;
  std::optional<Failure> failed;
  const auto place = [&](std::int64_t of_rank) {
    failed = place_engram(plan, config(), options, device.free_bytes(), of_rank);
    return plan.engram_place == EngramPlace::kHost;
  };
  if (share_.host_tables == nullptr) {
    place(free_on_host / num_ranks);
  } else {
    share_.host_tables->choose([&](bool is_shared) {
      return place(is_shared ? std::numeric_limits<std::int64_t>::max() : free_on_host);
    });
  }
  return failed;
}

std::optional<ExpertPlaceStats> DeviceModel::expert_places() const {
  const ExpertStore* store = experts();
  if (store == nullptr) return std::nullopt;
  return ExpertPlaceStats{store->placement().counts(), store->counts(), store->computed()};
}

void DeviceModel::check_reads() const {
  check_maps();
  if (const ExpertStore* store = experts()) store->check();
}

}  // namespace baleen
