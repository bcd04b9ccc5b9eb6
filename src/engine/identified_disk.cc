#include "engine/identified_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/progress.h"
#include "base/size_text.h"

namespace baleen {
namespace {

constexpr int kMaxThreads = 16;
constexpr std::int64_t kReports = 10;  ///< while it is hashed beside the engine
constexpr std::int64_t kMegabyte = 1'000'000;

int num_threads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxThreads);
}

}  // namespace

IdentifiedDisk::IdentifiedDisk(const DiskCacheOptions& options, const Checkpoint& checkpoint,
                               std::string traits, const CacheGeometry& geometry)
    : options_(options),
      traits_(std::move(traits)),
      page_bytes_(geometry.page_bytes()),
      window_page_bytes_(geometry.window_page_bytes()),
      label_(checkpoint.folder().string()),
      folder_(std::make_unique<CacheFolder>(options.folder)),
      identity_(checkpoint, folder_->models()) {
  // Weights in memory may change later: those that are there now count.
  if (checkpoint.num_files() == 0 || identity_.bytes_to_hash() <= options_.max_bytes_hashed_at_start) {
    open(hash(false, {}).value());
  } else {
    hash_beside();
  }
}

IdentifiedDisk::~IdentifiedDisk() = default;

std::optional<std::string> IdentifiedDisk::hash(bool beside, std::stop_token stop) {
  const std::int64_t total = identity_.bytes_to_hash();
  Progress progress("reading the checkpoint to know it from others", "MB", total / kMegabyte);
  std::int64_t reported = 0;
  return identity_.compute({.num_threads = num_threads(),
                            .gives_way = beside,
                            .stop = std::move(stop),
                            .progress = [&](std::int64_t done) {
                              if (!beside) return progress.update(done / kMegabyte);
                              if (done >= total || kReports * done / total == reported) return;
                              reported = kReports * done / total;
                              say(fmt::format("{}: {} of {} read to know this checkpoint from others", label_,
                                              size_text(done), size_text(total)));
                            }});
}

void IdentifiedDisk::hash_beside() {
  say(
      fmt::format("{}: {} are read once, to know this checkpoint from others; until then the server works "
                  "without {}",
                  label_, size_text(identity_.bytes_to_hash()), options_.folder.string()));
  hashed_ = known_.get_future();
  hasher_ = std::jthread([this](std::stop_token stop) {
    std::optional<std::string> identity;
    try {
      identity = hash(true, stop);
      if (identity) {
        const std::string kept = identity_.kept_in().string();
        say(fmt::format("{}: read; {}", label_,
                        kept.empty()
                            ? "what is known of it could not be kept, so the next start reads it again"
                            : "kept in " + kept));
      }
    } catch (const std::exception& error) {
      say(fmt::format("{}; no page is read from or written to {}", error.what(), options_.folder.string()));
    }
    known_.set_value(std::move(identity));
  });
}

void IdentifiedDisk::open(const std::string& identity) {
  tier_ = std::make_unique<DiskTier>(
      DiskTierOptions{.folder = options_.folder,
                      .budget_bytes = options_.budget_bytes,
                      .window_policy = options_.window_policy,
                      .checkpoint_pages = options_.checkpoint_pages,
                      .fingerprint = fmt::format("{} {}", traits_, identity),
                      .page_bytes = page_bytes_,
                      .window_page_bytes = window_page_bytes_,
                      .max_queued_bytes = options_.max_queued_bytes},
      std::move(folder_), options_.warn ? options_.warn : [](const std::string&) {});
}

DiskTier* IdentifiedDisk::arrived() {
  if (hashed_.valid() && hashed_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    if (const std::optional<std::string> identity = hashed_.get()) open(*identity);
  }
  if (!tier_ || std::exchange(has_arrived_, true)) return nullptr;
  return tier_.get();
}

DiskTierStats IdentifiedDisk::stats() const {
  DiskTierStats stats = tier_ ? tier_->stats() : DiskTierStats();
  stats.knows_model = tier_ != nullptr;
  stats.bytes_to_hash = identity_.bytes_to_hash();
  stats.hashed_bytes = identity_.hashed_bytes();
  return stats;
}

}  // namespace baleen
