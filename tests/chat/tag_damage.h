/// Damage to the tags of a block.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "everyday_calls.h"

namespace baleen::test {

/// Damage to tags: `from` becomes `to`, in one tag or in all.
struct TagDamage {
  const char *kind, *from, *to;
  bool is_clear = true;
};

[[nodiscard]] std::span<const TagDamage> tag_damages();

/// In all tags; in one of them with `one`, which draws it.
void replace_in_tags(std::vector<Piece>& pieces, std::string_view from, std::string_view to, Random* one);

}  // namespace baleen::test
