#include "trainer/ranks/training_ranks.h"

#include <algorithm>

#include "trainer/ranks/sum_tree.h"

namespace baleen {
namespace {

/// Messages are no longer than this, 64 MiB: what a rank receives from all others at once has to fit.
constexpr std::size_t kPieceValues = std::size_t{16} << 20;

using Bytes = std::span<const std::byte>;
using Room = std::span<std::byte>;

/// Values [begin, begin + kPieceValues) of an array, as far as it goes.
template <class T>
std::span<T> piece_of(std::span<T> values, std::size_t begin) {
  if (begin >= values.size()) return {};
  return values.subspan(begin, std::min(kPieceValues, values.size() - begin));
}

/// body(tensors, begin): round by round each rank's next tensor and, piece by piece, where the piece begins.
/// `tensors` has the size of the table for a rank without one.
template <class Body>
void for_pieces(const TensorHomes& homes, const Parameters<float>& table, Body&& body) {
  std::size_t num_rounds = 0;
  for (const auto& tensors : homes.of_rank) num_rounds = std::max(num_rounds, tensors.size());
  for (std::size_t round = 0; round < num_rounds; ++round) {
    std::vector<std::size_t> tensors;
    std::size_t longest = 0;
    for (const auto& of_rank : homes.of_rank) {
      tensors.push_back(round < of_rank.size() ? of_rank[round] : table.size());
      if (round < of_rank.size()) longest = std::max(longest, table.values(of_rank[round]).size());
    }
    for (std::size_t begin = 0; begin < longest; begin += kPieceValues) body(tensors, begin);
  }
}

/// The piece of tensor `i`; empty for none.
template <class Table>
auto piece_of_tensor(Table& table, std::size_t i, std::size_t begin) {
  using Piece = decltype(piece_of(table.values(i), begin));
  return i < table.size() ? piece_of(table.values(i), begin) : Piece{};
}

}  // namespace

void TrainingRanks::gather(std::int64_t count, std::span<double> values) const {
  if (size() == 1) return;
  const auto width = values.size() / static_cast<std::size_t>(count);
  std::vector<Bytes> send;
  std::vector<Room> receive;
  const auto rows_of = [&](std::int64_t rank) {
    const Range rows = share_of(count, rank);
    return values.subspan(static_cast<std::size_t>(rows.begin) * width,
                          static_cast<std::size_t>(rows.end - rows.begin) * width);
  };
  for (std::int64_t rank = 0; rank < size(); ++rank) {
    send.push_back(std::as_bytes(rows_of(this->rank())));
    receive.push_back(std::as_writable_bytes(rows_of(rank)));
  }
  communicator_->exchange(group_, send, receive);
}

void TrainingRanks::add_to_all(std::span<double> values) const {
  if (size() == 1) return;
  std::vector<double> all(values.size() * static_cast<std::size_t>(size()));
  const auto of_rank = [&](std::int64_t rank) {
    return std::span(all).subspan(static_cast<std::size_t>(rank) * values.size(), values.size());
  };
  std::ranges::copy(values, of_rank(rank()).begin());
  gather(size(), all);
  std::ranges::fill(values, 0.0);
  for (std::int64_t rank = 0; rank < size(); ++rank)
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += of_rank(rank)[i];
}

bool TrainingRanks::any(bool holds) const {
  double count = holds ? 1 : 0;
  add_to_all({&count, 1});
  return count > 0;
}

void TrainingRanks::sum_at_homes(const TensorHomes& homes, Parameters<float>& gradients) const {
  if (size() == 1) return;
  std::vector<std::vector<float>> arrived(static_cast<std::size_t>(size()));
  for_pieces(homes, gradients, [&](const std::vector<std::size_t>& tensors, std::size_t begin) {
    const std::span<float> mine =
        piece_of_tensor(gradients, tensors[static_cast<std::size_t>(rank())], begin);
    std::vector<Bytes> send;
    std::vector<Room> receive;
    for (std::size_t rank = 0; rank < arrived.size(); ++rank) {
      arrived[rank].resize(mine.size());
      send.push_back(std::as_bytes(piece_of_tensor(gradients, tensors[rank], begin)));
      receive.push_back(std::as_writable_bytes(std::span(arrived[rank])));
    }
    communicator_->exchange(group_, send, receive);
    const auto add = [&](std::size_t sum, std::size_t value) {
      for (std::size_t i = 0; i < mine.size(); ++i) arrived[sum][i] += arrived[value][i];
    };
    SumTree<std::size_t> tree;
    for (std::size_t rank = 0; rank < arrived.size(); ++rank) tree.push(rank, add);
    std::ranges::copy(arrived[tree.take(add)], mine.begin());
  });
}

void TrainingRanks::share_from_homes(const TensorHomes& homes, Parameters<float>& weights) const {
  if (size() == 1) return;
  for_pieces(homes, weights, [&](const std::vector<std::size_t>& tensors, std::size_t begin) {
    std::vector<Bytes> send;
    std::vector<Room> receive;
    for (const std::size_t tensor : tensors) {
      send.push_back(
          std::as_bytes(piece_of_tensor(weights, tensors[static_cast<std::size_t>(rank())], begin)));
      receive.push_back(std::as_writable_bytes(piece_of_tensor(weights, tensor, begin)));
    }
    communicator_->exchange(group_, send, receive);
  });
}

void TrainingRanks::bring_to_first(std::int64_t from, std::span<float> values) const {
  if (from == 0 || (rank() != from && !is_first())) return;
  const RankGroup pair{.ranks = {group_.ranks.front(), group_.ranks[static_cast<std::size_t>(from)]},
                       .place = is_first() ? 0 : 1};
  for (std::size_t begin = 0; begin < values.size(); begin += kPieceValues) {
    const std::span<float> piece = piece_of(values, begin);
    const std::vector<Bytes> send{is_first() ? Bytes() : std::as_bytes(piece), {}};
    const std::vector<Room> receive{{}, is_first() ? std::as_writable_bytes(piece) : Room()};
    communicator_->exchange(pair, send, receive);
  }
}

}  // namespace baleen
