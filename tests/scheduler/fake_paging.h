/// Whose tokens lie in which pages, as a fake engine needs it: a toy, or the engine's own table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/step_engine.h"

namespace baleen {

struct FakePools {
  std::int64_t num_pages = 1000;
  std::int64_t num_window_pages = 1000;
  std::int64_t max_sequences = 16;
  std::int64_t max_draft_tokens = 4;
};

/// As the functions of StepEngine. Unknown ids stop the program.
class FakePaging {
 public:
  virtual ~FakePaging() = default;
  [[nodiscard]] virtual std::optional<SequenceId> open(std::span<const TokenId> prompt) = 0;
  [[nodiscard]] virtual std::span<const TokenId> tokens(SequenceId id) const = 0;
  [[nodiscard]] virtual bool reserve(SequenceId id, std::int64_t num_tokens) = 0;
  /// Positions there is room for.
  [[nodiscard]] virtual std::int64_t reserved(SequenceId id) const = 0;
  virtual void commit(SequenceId id, std::span<const TokenId> tokens) = 0;
  /// As SequenceTable's, whose `commit` is `extend` and `settle`.
  virtual void extend(SequenceId id, std::span<const TokenId> tokens) = 0;
  virtual void name(SequenceId id, std::int64_t position, TokenId token) = 0;
  virtual void settle(SequenceId id, std::int64_t length) = 0;
  virtual void truncate(SequenceId id, std::int64_t length) = 0;
  virtual void share(SequenceId id) = 0;
  virtual void close(SequenceId id, bool keep) = 0;
  [[nodiscard]] virtual CacheUse cache_use() const = 0;
};

/// Prefixes of whole pages in a map; window pages are counted, never cached.
[[nodiscard]] std::unique_ptr<FakePaging> make_toy_paging(const FakePools& pools);
/// The engine's SequenceTable over a cache of one small block.
[[nodiscard]] std::unique_ptr<FakePaging> make_table_paging(const FakePools& pools);

}  // namespace baleen
