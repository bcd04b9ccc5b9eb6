/// The disk tier of an engine, which begins when it is known which model this is: no page is read or written
/// before.
///
/// The cache's folder is taken at once, so that a second server hears of the first when it starts. The
/// model's identity is all of its bytes (ContentIdentity): known at once where their digests are kept or they
/// are few, otherwise computed by threads beside the engine, which meanwhile works without a disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "disk_tier/disk_tier.h"
#include "engine/engine_options.h"
#include "model/identity.h"

namespace baleen {

class IdentifiedDisk {
 public:
  /// `traits`: what else decides what bytes a page has for given tokens. `checkpoint` outlives this. Throws
  /// `Error` when the folder cannot be used, or the checkpoint cannot be read.
  IdentifiedDisk(const DiskCacheOptions& options, const Checkpoint& checkpoint, std::string traits,
                 const CacheGeometry& geometry);
  /// Leaves off hashing; what is known of whole files by then is kept.
  ~IdentifiedDisk();
  IdentifiedDisk(const IdentifiedDisk&) = delete;
  IdentifiedDisk& operator=(const IdentifiedDisk&) = delete;

  /// The tier, once: from the first call on by which the model is known. Null before and after.
  [[nodiscard]] DiskTier* arrived();
  [[nodiscard]] DiskTierStats stats() const;

 private:
  void hash_beside();
  /// Empty when it was stopped.
  [[nodiscard]] std::optional<std::string> hash(bool beside, std::stop_token stop);
  void open(const std::string& identity);
  void say(const std::string& sentence) const {
    if (options_.warn) options_.warn(sentence);
  }

  DiskCacheOptions options_;
  std::string traits_;
  std::int64_t page_bytes_, window_page_bytes_;
  std::string label_;                    ///< names the checkpoint
  std::unique_ptr<CacheFolder> folder_;  ///< until the tier has it
  ContentIdentity identity_;
  std::unique_ptr<DiskTier> tier_;
  bool has_arrived_ = false;
  std::promise<std::optional<std::string>> known_;
  std::future<std::optional<std::string>> hashed_;  ///< none inside: there will be no tier
  std::jthread hasher_;
};

}  // namespace baleen
