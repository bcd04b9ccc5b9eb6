/// The Engram tables of a model where they lie, for all ranks that read the same memory.
#pragma once

#include <cstdint>
#include <vector>

#include "engram/engram_place.h"
#include "engram/stored_table.h"
#include "tensor/buffer.h"

namespace baleen {

/// Immutable once made; any thread.
class EngramTables {
 public:
  /// Brings the tables to `memory` (that of the device, or the host's that it reads) where `place` says so,
  /// with a progress line where that takes seconds; elsewhere `memory` is left alone. The checkpoint of
  /// `stored` outlives this. Throws `Error` where `memory` has not enough, where a file cannot be read, and
  /// for tables that are to be read from disk and lie in no file.
  EngramTables(std::vector<StoredEngramTable> stored, EngramPlace place, Memory& memory);
  EngramTables(const EngramTables&) = delete;
  EngramTables& operator=(const EngramTables&) = delete;

  [[nodiscard]] EngramPlace place() const { return place_; }
  /// As the checkpoint has them.
  [[nodiscard]] const std::vector<StoredEngramTable>& stored() const { return stored_; }

  /// Where the device reads them: of tables on disk nothing.
  struct Rows {
    View<const std::uint8_t, 2> codes, scales;
  };
  [[nodiscard]] const Rows& rows(std::int64_t table) const { return rows_[static_cast<std::size_t>(table)]; }

 private:
  std::vector<StoredEngramTable> stored_;
  EngramPlace place_;
  std::vector<Buffer> buffers_;
  std::vector<Rows> rows_;
};

}  // namespace baleen
