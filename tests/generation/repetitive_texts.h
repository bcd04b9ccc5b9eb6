/// Texts that repeat themselves: sound ones, which no detector of loops may stop, and loops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace baleen {

struct NamedText {
  std::string name, text;
};

/// Tables, data, code, logs, verses, drawings and the like, as replies have them: `size` rows or items each,
/// or a number of the same order.
[[nodiscard]] std::vector<NamedText> sound_texts(std::int64_t size);

/// Loops, exact and near, each of at least `num_bytes`, after a sound beginning.
[[nodiscard]] std::vector<NamedText> looping_texts(std::size_t num_bytes);

}  // namespace baleen
