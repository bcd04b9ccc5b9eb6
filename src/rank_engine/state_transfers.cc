#include "rank_engine/state_transfers.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "drafts/draft_head.h"

namespace baleen {
namespace {

/// Of a few pools; more is no manifest.
constexpr std::int64_t kMaxManifestBytes = 1 << 16;

std::size_t num_bytes(std::span<const PoolRange> ranges) {
  return ranges.empty() ? 0 : static_cast<std::size_t>(ranges.back().offset + ranges.back().num_bytes);
}

}  // namespace

StateTransfers::StateTransfers(SequenceTable& sequences, KvCache& cache, const DraftHead* draft_head,
                               const RankLayout& layout, Communicator& communicator, std::string identity)
    : sequences_(sequences),
      cache_(cache),
      draft_head_(draft_head),
      layout_(layout),
      communicator_(communicator),
      identity_(std::move(identity)),
      token_range_{.pool = "tokens"},
      draft_range_{.pool = "draft streams"} {}

std::optional<Failure> StateTransfers::exchange(const SequenceTransfer& transfer) {
  const std::int64_t group = layout_.dp_index();
  if (group == transfer.to_group) return receive(transfer);
  if (group == transfer.from_group) send(transfer);
  return std::nullopt;
}

void StateTransfers::adopt(SequenceId received, bool has_streams) {
  Transfer& transfer = under_way_.at(received);
  sequences_.adopt(received, std::move(transfer.tokens), transfer.first_window_page, has_streams);
  forget(received);
}

StateTransfers::Transfer& StateTransfers::under_way(SequenceId sequence) {
  return under_way_.try_emplace(sequence, Transfer{.manifest = StateManifest(identity_)}).first->second;
}

std::vector<StateTransfers::Part> StateTransfers::parts(const SequenceTransfer& transfer, SequenceId sequence,
                                                        std::vector<TokenId>& tokens,
                                                        std::int64_t first_window_page) {
  const SequencePages& pages = sequences_.pages(sequence);
  const std::int64_t end_page = transfer.last ? pages_for(transfer.end) : transfer.end / kPageTokens;
  std::vector<Part> all;
  for (std::int64_t i = transfer.first_page; i < end_page; ++i) {
    const PageId page = pages.pages()[static_cast<std::size_t>(i)];
    all.push_back({cache_.page_ranges(), [this, page](auto to) { cache_.read_page(page, to); },
                   [this, page](auto from) { cache_.write_page(page, from); }});
  }
  if (!transfer.last) return all;
  for (std::int64_t i = first_window_page; i < end_page; ++i) {
    const PageId page = pages.window_pages()[static_cast<std::size_t>(i)];
    all.push_back({cache_.window_page_ranges(), [this, page](auto to) { cache_.read_window_page(page, to); },
                   [this, page](auto from) { cache_.write_window_page(page, from); }});
  }
  const std::int32_t slot = pages.state_slot();
  all.push_back({cache_.state_slot_ranges(), [this, slot](auto to) { cache_.read_state_slot(slot, to); },
                 [this, slot](auto from) { cache_.write_state_slot(slot, from); }});
  if (draft_head_ != nullptr) {
    for (const std::span<std::byte> piece : draft_head_->carried(slot, transfer.end)) {
      draft_range_.num_bytes = std::ssize(piece);
      all.push_back({{&draft_range_, 1},
                     [this, piece](auto to) { cache_.memory().download(to, piece.data()); },
                     [this, piece](auto from) { cache_.memory().upload(piece.data(), from); }});
    }
  }
  tokens.resize(static_cast<std::size_t>(transfer.end));
  token_range_.num_bytes = static_cast<std::int64_t>(tokens.size() * sizeof(TokenId));
  const auto bytes = std::as_writable_bytes(std::span(tokens));
  all.push_back({{&token_range_, 1},
                 [bytes](auto to) { std::ranges::copy(bytes, to.begin()); },
                 [bytes](auto from) { std::ranges::copy(from, bytes.begin()); }});
  return all;
}

void StateTransfers::send(const SequenceTransfer& transfer) {
  Transfer& own = under_way(transfer.sent);
  const SequencePages& pages = sequences_.pages(transfer.sent);
  const std::span<const TokenId> tokens = sequences_.tokens(transfer.sent);
  BALEEN_CHECK_LE(transfer.end, std::ssize(tokens));
  own.tokens.assign(tokens.begin(), tokens.begin() + transfer.end);
  own.first_window_page = std::max(transfer.known_pages, pages.first_window_page());
  const std::vector<Part> all = parts(transfer, transfer.sent, own.tokens, own.first_window_page);
  for (const Part& part : all) own.manifest.count(part.ranges);
  const auto send_manifest = [&] {
    const std::vector<std::byte> bytes = own.manifest.to_bytes();
    const Header header{.manifest_bytes = std::ssize(bytes), .first_window_page = own.first_window_page};
    send_bytes(transfer.to_group, std::as_bytes(std::span(&header, 1)));
    send_bytes(transfer.to_group, bytes);
  };
  send_manifest();
  std::byte accepted{};
  receive_bytes(transfer.to_group, {&accepted, 1});
  if (accepted == std::byte{0}) return;
  for (const Part& part : all) {
    buffer_.resize(num_bytes(part.ranges));
    part.read(buffer_);
    own.manifest.add(part.ranges, buffer_);
    send_bytes(transfer.to_group, buffer_);
  }
  send_manifest();
  if (transfer.last) forget(transfer.sent);
}

std::optional<Failure> StateTransfers::receive(const SequenceTransfer& transfer) {
  Transfer& own = under_way(transfer.received);
  std::vector<std::byte> manifest;
  Header header;
  const auto receive_manifest = [&] {
    receive_bytes(transfer.from_group, std::as_writable_bytes(std::span(&header, 1)));
    if (header.manifest_bytes < 0 || header.manifest_bytes > kMaxManifestBytes) {
      fail("a manifest of {} bytes from group {}: {} at most; a message between ranks is damaged",
           header.manifest_bytes, transfer.from_group, kMaxManifestBytes);
    }
    manifest.resize(static_cast<std::size_t>(header.manifest_bytes));
    receive_bytes(transfer.from_group, manifest);
  };
  receive_manifest();
  std::optional<Failure> refusal = check_plan(transfer, header, manifest, own);
  const std::byte accepted{static_cast<unsigned char>(refusal ? 0 : 1)};
  send_bytes(transfer.from_group, {&accepted, 1});
  if (refusal) return refusal;
  for (const Part& part : parts(transfer, transfer.received, own.tokens, own.first_window_page)) {
    buffer_.resize(num_bytes(part.ranges));
    receive_bytes(transfer.from_group, buffer_);
    own.manifest.add(part.ranges, buffer_);
    part.write(buffer_);
    received_bytes_ += std::ssize(buffer_);
  }
  receive_manifest();
  try {
    if (auto wrong = own.manifest.difference(StateManifest::from_bytes(manifest))) return wrong;
  } catch (const Error& error) {
    return Failure{error.what()};
  }
  if (!transfer.last) return std::nullopt;
  const std::span<const TokenId> known = sequences_.tokens(transfer.received);
  const auto [mine, theirs] = std::ranges::mismatch(known, own.tokens);
  if (mine == known.end()) return std::nullopt;
  return failure("pool tokens: expected {} at position {}, as in the prefix that this group has, found {}",
                 *mine, mine - known.begin(), *theirs);
}

std::optional<Failure> StateTransfers::check_plan(const SequenceTransfer& transfer, const Header& header,
                                                  std::span<const std::byte> manifest, Transfer& own) {
  // Window pages from the one that the next position sees first, or from an earlier one that is still kept.
  const SequencePages& pages = sequences_.pages(transfer.received);
  const std::int64_t first_seen =
      std::max<std::int64_t>(0, transfer.end - cache_.geometry().window_tokens) / kPageTokens;
  const std::int64_t least = std::max(transfer.known_pages, pages.first_window_page());
  const std::int64_t most = std::max(transfer.known_pages, first_seen);
  const std::int64_t first = header.first_window_page;
  if (transfer.last && (first < least || first > most)) {
    return failure(
        "pool window rows: expected them from page {} on, or from a later one up to page {}, found {}", least,
        most, first);
  }
  own.first_window_page = first;
  for (const Part& part : parts(transfer, transfer.received, own.tokens, first))
    own.manifest.count(part.ranges);
  try {
    return own.manifest.difference(StateManifest::from_bytes(manifest));
  } catch (const Error& error) {
    return Failure{error.what()};
  }
}

RankGroup StateTransfers::with_group(std::int64_t group) const {
  const std::int64_t own = layout_.rank();
  const std::int64_t other = own + (group - layout_.dp_index()) * layout_.plan().group_ranks();
  return {.ranks = {std::min(own, other), std::max(own, other)}, .place = own < other ? 0 : 1};
}

void StateTransfers::send_bytes(std::int64_t group, std::span<const std::byte> bytes) {
  const RankGroup pair = with_group(group);
  std::vector<std::span<const std::byte>> send(2);
  send[static_cast<std::size_t>(1 - pair.place)] = bytes;
  communicator_.exchange(pair, send, std::vector<std::span<std::byte>>(2));
}

void StateTransfers::receive_bytes(std::int64_t group, std::span<std::byte> bytes) {
  const RankGroup pair = with_group(group);
  std::vector<std::span<std::byte>> receive(2);
  receive[static_cast<std::size_t>(1 - pair.place)] = bytes;
  communicator_.exchange(pair, std::vector<std::span<const std::byte>>(2), receive);
}

}  // namespace baleen
