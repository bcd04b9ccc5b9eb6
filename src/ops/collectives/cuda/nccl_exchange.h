/// What the collectives over NCCL are made of: exchanges of bytes, and kernels that take what arrived.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/nccl/nccl_rank.h"
#include "cuda/cuda_context.h"

namespace baleen::BALEEN_ARCH {

/// An exchange by NCCL as it is put together: what each member sends and gets, none at first.
class NcclExchange {
 public:
  NcclExchange(const NcclRank& nccl, const RankGroup& group)
      : nccl_(nccl), group_(group), send_(group.ranks.size()), receive_(group.ranks.size()) {}

  /// To and from the member at `place`; both ends give the same size. Nothing for this rank itself.
  void send(std::int64_t place, const std::byte* data, std::int64_t bytes) {
    send_[static_cast<std::size_t>(place)] = {data, static_cast<std::size_t>(bytes)};
  }
  void receive(std::int64_t place, std::byte* data, std::int64_t bytes) {
    receive_[static_cast<std::size_t>(place)] = {data, static_cast<std::size_t>(bytes)};
  }
  /// Queues it behind a kernel that counts its beginning, and before one that counts its end.
  void run(CudaContext& context) const;

 private:
  const NcclRank& nccl_;
  const RankGroup& group_;
  std::vector<std::span<const std::byte>> send_;
  std::vector<std::span<std::byte>> receive_;
};

/// y[v] = sum over members, in ascending place, of vector v of what they sent; vectors of four values.
struct ArrivedSums {
  const uint4* own = nullptr;      ///< [count] of this rank
  const uint4* arrived = nullptr;  ///< [members, stride]; that of this rank is not read
  std::int64_t stride = 0;
  std::int32_t size = 1, place = 0;
  std::int64_t count = 0;
  std::byte* y = nullptr;
  bool rounds = true;
  bool y_is_bf16 = true;
};
void add_arrived(const ArrivedSums& sums, CudaContext& context);

/// Columns of a matrix as dense parts, one for each member, and back. All members but the last have
/// `part_vectors` vectors of 16 bytes of a row.
struct ColumnParts {
  std::byte* matrix = nullptr;  ///< [rows, row_vectors]
  std::int64_t row_vectors = 0;
  std::int64_t part_vectors = 0;
  std::int64_t rows = 0;
  std::int32_t size = 1, place = 0;
  std::byte* own = nullptr;    ///< the part of this rank
  std::byte* parts = nullptr;  ///< [members, stride] of the others
  std::int64_t stride = 0;     ///< bytes

  [[nodiscard]] constexpr std::int64_t width(std::int64_t member) const {
    const std::int64_t first = member * part_vectors;
    const std::int64_t left = row_vectors > first ? row_vectors - first : 0;
    return left < part_vectors ? left : part_vectors;
  }
};
void cut_columns(const ColumnParts& columns, CudaContext& context);
void place_columns(const ColumnParts& columns, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
