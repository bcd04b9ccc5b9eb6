/// Writes one shard from spooled documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "training_data/document_spool.h"
#include "training_data/shard_format.h"

namespace baleen {

/// Documents `order` (indices into the spool) to `folder`, which appears complete or not at all. Of `header`
/// the totals are computed, all else is the caller's. Returns the totals. Throws `Error` when the disk is
/// full.
ShardTotals write_shard(const std::filesystem::path& folder, ShardHeader header, const DocumentSpool& spool,
                        std::span<const std::uint64_t> order);

}  // namespace baleen
