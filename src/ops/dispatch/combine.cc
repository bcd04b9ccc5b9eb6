#include "ops/dispatch/combine.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "numeric/bf16.h"

namespace baleen {
namespace {

float rounded(float value, Precision precision) {
  return precision == Precision::kExact ? value : round_bf16(value);
}

/// Rows [begin, end) of y that came from the member at `place`.
RowRange rows_from(const DispatchedRows& received, std::int64_t place) {
  const auto begin = received.rows_from.begin();
  const std::int64_t first = std::accumulate(begin, begin + place, std::int64_t{0});
  return {first, first + begin[place]};
}

/// What each member returned for this rank's assignments, added up. `returned`: [ranks of the stage], rows in
/// the order in which they were sent.
void add_up(const CombineArgs& args, std::span<const View<const float, 2>> returned) {
  const std::int64_t num_rows = args.out.extent(0), width = args.out.extent(1),
                     moe_tp = args.placement.moe_tp();
  const std::int64_t num_slots = args.ids.extent(1);
  // Of each assignment, where it is among the rows of its expert's ranks.
  std::vector<std::int64_t> index(static_cast<std::size_t>(num_rows * num_slots));
  for (std::int64_t place = 0; place < args.placement.stage->size(); place += moe_tp) {
    std::int64_t next = 0;
    for (const auto [row, slot] : rows_for(args.placement, args.ids, place))
      index[static_cast<std::size_t>(row * num_slots + slot)] = next++;
  }
  std::vector<std::int64_t> slots(static_cast<std::size_t>(num_slots));
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::iota(slots.begin(), slots.end(), 0);
    std::ranges::stable_sort(slots, {}, [&](std::int64_t slot) { return args.ids(row, slot); });
    for (std::int64_t i = 0; i < width; ++i) {
      float sum = 0.0F;
      for (const std::int64_t slot : slots) {
        if (args.ids(row, slot) < 0) continue;
        const auto place =
            static_cast<std::size_t>(args.placement.place_of(args.placement.physical(args.ids, row, slot)));
        const std::int64_t at = index[static_cast<std::size_t>(row * num_slots + slot)];
        float y = returned[place](at, i);
        for (std::int64_t part = 1; part < moe_tp; ++part)
          y += returned[place + static_cast<std::size_t>(part)](at, i);
        sum += moe_tp > 1 ? rounded(y, args.precision) : y;
      }
      if (!args.shared.empty()) sum += args.shared(row, i);
      args.out(row, i) = rounded(sum, args.precision);
    }
  }
}

void return_and_add(const CombineArgs& args, Communicator& communicator) {
  const RankGroup& stage = *args.placement.stage;
  const std::int64_t width = args.y.extent(1);
  std::vector<std::vector<float>> arrays;
  std::vector<std::span<const std::byte>> send;
  std::vector<std::span<std::byte>> receive;
  std::vector<View<const float, 2>> returned;
  for (std::int64_t place = 0; place < stage.size(); ++place) {
    const RowRange rows = rows_from(*args.received, place);
    send.push_back(std::as_bytes(
        std::span(args.y.data() + rows.begin * width, static_cast<std::size_t>(rows.size() * width))));
    const std::int64_t count = std::ssize(rows_for(args.placement, args.ids, place));
    arrays.emplace_back(static_cast<std::size_t>(count * width));
    receive.push_back(std::as_writable_bytes(std::span(arrays.back())));
    returned.emplace_back(arrays.back().data(), View<const float, 2>::Extents{count, width});
  }
  communicator.exchange(stage, send, receive);
  add_up(args, returned);
}

}  // namespace

void combine_ref(std::span<const CombineArgs> ranks) {
  for (const CombineArgs& to : ranks) {
    std::vector<View<const float, 2>> returned;
    for (const CombineArgs& from : ranks) {
      const RowRange rows = rows_from(*from.received, to.placement.stage->place);
      returned.push_back(from.y.slice(rows.begin, rows.end).f32());
    }
    add_up(to, returned);
  }
}

}  // namespace baleen

namespace baleen::ops {

OpCost Combine::cost(const CombineArgs& args) {
  OpCost cost;
  const auto num_rows = static_cast<double>(args.out.extent(0));
  const double terms =
      num_rows * (static_cast<double>(args.ids.extent(1)) + (args.shared.empty() ? 0.0 : 1.0));
  const auto width = static_cast<double>(args.out.extent(1));
  cost.scalar_ops = terms * width;
  cost.read_bytes = terms * width * static_cast<double>(size_of(args.out.element_type()));
  cost.write_bytes = bytes_of(args.out);
  return cost;
}

std::vector<RankMessage> Combine::messages(const CombineArgs& args) {
  const ExpertRanks& placement = args.placement;
  const auto ranks = static_cast<double>(placement.ep);
  const auto assignments = static_cast<double>(args.ids.size()),
             width = static_cast<double>(args.out.extent(1));
  constexpr double kPartialSumBytes = 4;
  // Where all places return, a token's k from every rank.
  const bool all_places =
      args.way == DispatchWay::kGatheredPlaces && args.out.extent(0) <= kMaxCapturedTokens;
  const double returned = assignments * (all_places ? ranks : 1.0);
  return {{MessageKind::kReduceScatter, placement.moe_tp(), assignments / ranks * kPartialSumBytes * width},
          {MessageKind::kAllToAll, placement.ep,
           returned * width * static_cast<double>(size_of(args.out.element_type())) * (ranks - 1) / ranks}};
}

void Combine::accesses(const CombineArgs& args, Accesses& to) {
  to.read(args.y, args.ids, args.shared).write(args.out);
  const std::int32_t* const experts = args.received->experts;
  to.read(std::span(experts, experts == nullptr ? 0 : static_cast<std::size_t>(args.received->num_rows)));
}

std::span<const CpuVariant<Combine>> Combine::cpu_variants() {
  static constexpr std::array<CpuVariant<Combine>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const CombineArgs& args, CpuContext& context) {
          return_and_add(args, communicator_of(context, kName));
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
