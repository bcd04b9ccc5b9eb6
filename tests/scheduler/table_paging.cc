#include "engine/sequence_table.h"
#include "tests/scheduler/fake_paging.h"

namespace baleen {
namespace {

/// One small block: the table asks for nothing else of a model.
CacheGeometry small_geometry(const FakePools& pools) {
  return {.blocks = {{.ratio = 4, .overlaps = true, .has_index_keys = true}},
          .latent = {64, 64, Precision::kReleased},
          .index_key = {128, Precision::kReleased},
          .max_draft_tokens = pools.max_draft_tokens,
          .shares_prefixes = true};
}

class TablePaging : public FakePaging {
 public:
  explicit TablePaging(const FakePools& pools)
      : cache_(small_geometry(pools), {pools.num_pages, pools.num_window_pages, pools.max_sequences}),
        table_(cache_) {}

  std::optional<SequenceId> open(std::span<const TokenId> prompt) override { return table_.open(prompt); }
  std::span<const TokenId> tokens(SequenceId id) const override { return table_.tokens(id); }
  bool reserve(SequenceId id, std::int64_t num_tokens) override { return table_.reserve(id, num_tokens); }
  std::int64_t reserved(SequenceId id) const override { return table_.reserved(id); }
  void commit(SequenceId id, std::span<const TokenId> tokens) override { table_.commit(id, tokens); }
  void extend(SequenceId id, std::span<const TokenId> tokens) override { table_.extend(id, tokens); }
  void name(SequenceId id, std::int64_t position, TokenId token) override {
    table_.name(id, position, token);
  }
  void settle(SequenceId id, std::int64_t length) override { table_.settle(id, length); }
  void truncate(SequenceId id, std::int64_t length) override { table_.truncate(id, length); }
  void share(SequenceId id) override { table_.share(id); }
  void close(SequenceId id, bool keep) override {
    table_.close(id, keep);
    table_.check_integrity();
  }
  CacheUse cache_use() const override { return table_.cache_use(); }

 private:
  KvCache cache_;
  SequenceTable table_;
};

}  // namespace

std::unique_ptr<FakePaging> make_table_paging(const FakePools& pools) {
  return std::make_unique<TablePaging>(pools);
}

}  // namespace baleen
