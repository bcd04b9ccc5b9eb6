/// Which cache rows a query attends to, in order: the window, then the compressed entries. Nothing is copied.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace baleen {

class EntryList {
 public:
  struct Place {
    const LatentPool* pool = nullptr;
    const std::byte* page = nullptr;
    int row = 0;
  };

  EntryList(const SparseAttentionArgs& args, std::int64_t query)
      : args_(args), slice_(args.batch.slice_of(query)) {
    const std::int64_t position = slice_.start + query - slice_.first_row;
    window_ = slice_.window_at(position, args.window_tokens);
    if (args.ratio == 0) return;
    if (!args.selects()) {
      num_compressed_ = (position + 1) / args.ratio;
      return;
    }
    selected_ = args.selected.row(query);
    const auto end =
        std::find_if(selected_.begin(), selected_.end(), [](std::int32_t entry) { return entry < 0; });
    num_compressed_ = end - selected_.begin();
  }

  [[nodiscard]] std::int64_t size() const { return window_.size() + num_compressed_; }

  [[nodiscard]] Place operator[](std::int64_t index) const {
    if (index < window_.size()) return place(args_.window, slice_.window_pages, window_.begin + index);
    const std::int64_t entry = index - window_.size();
    return place(args_.compressed, slice_.pages,
                 selected_.empty() ? entry : selected_[static_cast<std::size_t>(entry)]);
  }

 private:
  static Place place(const LatentPool& pool, std::span<const PageId> pages, std::int64_t row) {
    const auto page_idx = static_cast<std::size_t>(row / pool.rows_per_page);
    BALEEN_DCHECK(page_idx < pages.size() && pages[page_idx] != PageId::kNone);
    return {&pool, pool.page(static_cast<std::int64_t>(pages[page_idx])),
            static_cast<int>(row % pool.rows_per_page)};
  }

  const SparseAttentionArgs& args_;
  const SequenceSlice& slice_;
  PositionRange window_;
  std::int64_t num_compressed_ = 0;
  std::span<const std::int32_t> selected_;
};

}  // namespace baleen
