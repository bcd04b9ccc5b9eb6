#include "engine/token_chooser.h"

namespace baleen {

TokenChooser::TokenChooser(Device& device, std::int64_t max_rows, Arena& arena)
    : device_(device), ids_(arena.allocate<TokenId>(max_rows), static_cast<std::size_t>(max_rows)) {}

std::span<const TokenId> TokenChooser::choose(const Activations<2>& logits,
                                              std::span<const SampleRow> draws) {
  const std::span<TokenId> ids = ids_.first(draws.size());
  device_.execute<ops::Sample>({.logits = logits, .rows = draws, .ids = ids});
  host_copy_.resize(draws.size());
  device_.memory().download(std::as_writable_bytes(std::span(host_copy_)),
                            reinterpret_cast<const std::byte*>(ids.data()));
  device_.check_messages();
  return host_copy_;
}

}  // namespace baleen
