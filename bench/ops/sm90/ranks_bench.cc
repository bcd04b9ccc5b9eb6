// What ranks on GPUs of one host exchange, in graphs, on all GPUs of the machine: all-reduce by size, and
// dispatch + combine of a layer's tokens, through peer memory and over NCCL, beside all-gather +
// reduce-scatter of the same tokens by our copies and by NCCL's own; a layer's experts by one operation
// after the other and fused. The time of a call is that of the slowest rank. `sm90_ranks_bench experts`: the
// last of these alone.
#include <barrier>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "bench/support/cuda_bench.h"
#include "comm/local_communicator.h"
#include "comm/nccl/nccl_rank.h"
#include "ops/collectives/cuda/collectives.h"
#include "ops/collectives/cuda/nccl_collectives.h"
#include "ops/dispatch/cuda/dispatch.h"
#include "ops/dispatch/cuda/nccl_dispatch.h"
#include "tests/support/exchanged_experts.h"
#include "tests/support/gpu_ranks.h"

namespace baleen::bench {
namespace {

using test::GpuRanks;
using test::TestCuda;

constexpr std::int64_t kWidth = 4096, kChosen = 6, kExperts = 256;  // DeepSeek-V4-Flash
constexpr std::int64_t kInner = 2048;
constexpr std::int64_t kExpertScratch = std::int64_t{256} << 20;
constexpr int kCalls = 20;  // of a graph

/// What every rank's thread has.
struct Rank {
  TestCuda& cuda;
  const RankGroup& group;
  GpuRanks& ranks;
  const NcclRank* nccl;  ///< null: there is none
  const PeerRank* peers;

  [[nodiscard]] cudaStream_t stream() const { return cuda.context().stream; }
  /// `work` with messages by NCCL.
  void time_by_nccl(const std::string& kernel, const std::string& shape, double bytes,
                    const std::function<void()>& work) const {
    const PeerRank over_nccl(*nccl);
    cuda.context().peers = &over_nccl;
    time(kernel, shape, bytes, work);
    cuda.context().peers = peers;
  }
  /// The first rank reports.
  void time(const std::string& kernel, const std::string& shape, double bytes,
            const std::function<void()>& work) const {
    ranks.meet();
    const Timing timing = time_launches(stream(), kCalls, [&](int) { work(); });
    if (group.place == 0) report(kernel, shape, timing, bytes, 0);
    ranks.meet();
  }
};

void bench_all_reduce(const Rank& rank, std::int64_t bytes) {
  const std::int64_t count = bytes / 4, rows = std::max<std::int64_t>(1, count / kWidth);
  const std::int64_t width = count / rows;
  float* x = rank.cuda.allocate<float>(count);
  float* sums = rank.cuda.allocate<float>(count);
  auto* y = rank.cuda.allocate<Bf16Bits>(count);
  const std::string shape = fmt::format("{} bytes on {} ranks", bytes, rank.group.size());
  const AllReduceArgs args{
      .group = &rank.group, .x = Activations<2>(x, {rows, width}), .y = View<Bf16Bits, 2>(y, {rows, width})};
  rank.time("all_reduce sm90/peers", shape, static_cast<double>(bytes),
            [&] { sm90::all_reduce(args, rank.cuda.context()); });
  if (rank.nccl == nullptr) return;
  rank.time_by_nccl("all_reduce sm90/nccl", shape, static_cast<double>(bytes),
                    [&] { sm90::nccl_all_reduce(args, rank.cuda.context()); });
  rank.time("all_reduce NCCL", shape, static_cast<double>(bytes), [&] {
    const NcclLibrary& library = rank.nccl->library();
    library.check(library.all_reduce(x, sums, static_cast<std::size_t>(count), NcclLibrary::kFloat32,
                                     NcclLibrary::kSum, rank.nccl->comm(), rank.stream()),
                  "all-reduce");
  });
}

std::vector<std::int32_t> random_ids(std::int64_t tokens, std::mt19937& random) {
  std::vector<std::int32_t> ids, experts(kExperts);
  for (std::int32_t e = 0; e < kExperts; ++e) experts[static_cast<std::size_t>(e)] = e;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::ranges::shuffle(experts, random);
    ids.insert(ids.end(), experts.begin(), experts.begin() + kChosen);
  }
  return ids;
}

/// A layer's tokens to experts and back.
void bench_dispatch(const Rank& rank, std::int64_t tokens) {
  TestCuda& cuda = rank.cuda;
  const std::int64_t size = rank.group.size(), room = size * tokens * kChosen;
  cuda.context().most_rows = tokens;
  std::mt19937 random(static_cast<unsigned>(rank.group.place + 1));
  const std::vector<std::int32_t> ids = random_ids(tokens, random);
  const std::vector<float> values(static_cast<std::size_t>(tokens * kWidth), 0.5F);
  const std::int64_t stride = (room + 3) / 4 * 4;
  DispatchedRows received;
  const ExpertRanks placement{.stage = &rank.group, .ep = size, .num_experts = kExperts};
  const View<const std::int32_t, 2> device_ids(cuda.upload(ids), {tokens, kChosen});
  auto* const x = cuda.upload_bf16(values);
  const DispatchArgs sent{
      .placement = placement,
      .x = View<const Bf16Bits, 2>(x, {tokens, kWidth}),
      .ids = device_ids,
      .weights = ConstActivations<2>(cuda.allocate<float>(tokens * kChosen), {tokens, kChosen}),
      .arrived = View<Bf16Bits, 2>(cuda.allocate<Bf16Bits>(room * kWidth), {room, kWidth}),
      .arrived_fp8 = {cuda.allocate<std::uint8_t>(room * kWidth), cuda.allocate<float>(kWidth / 128 * stride),
                      stride},
      .arrived_ids = {cuda.allocate<std::int32_t>(room), {room, 1}},
      .arrived_weights = {cuda.allocate<float>(room), {room, 1}},
      .received = &received};
  auto* const outputs = cuda.allocate<Bf16Bits>(room * kWidth);
  auto* const out = cuda.allocate<Bf16Bits>(tokens * kWidth);
  auto* const all = cuda.allocate<Bf16Bits>(size * tokens * kWidth);
  auto* const sums = cuda.allocate<float>(size * tokens * kWidth);
  cuda.synchronise();
  const std::string shape = fmt::format("{} tokens a rank on {} ranks", tokens, size);
  const double remote = static_cast<double>(size - 1) / static_cast<double>(size);
  const double row_values = static_cast<double>(tokens * kWidth);
  const auto send = [&] { sm90::dispatch(sent, cuda.context()); };
  const CombineArgs returned{.placement = placement,
                             .y = View<const Bf16Bits, 2>(outputs, {room, kWidth}),
                             .received = &received,
                             .ids = device_ids,
                             .out = View<Bf16Bits, 2>(out, {tokens, kWidth})};
  const auto combine = [&] { sm90::combine(returned, cuda.context()); };
  rank.time("dispatch sm90/peers", shape, row_values * kChosen * remote, send);
  rank.time("combine sm90/peers", shape, 2 * row_values * kChosen * remote, combine);
  rank.time("dispatch + combine sm90/peers", shape, 3 * row_values * kChosen * remote, [&] {
    send();
    combine();
  });
  if (rank.nccl != nullptr) {
    const auto send_by_nccl = [&] { sm90::nccl_dispatch(sent, cuda.context()); };
    const auto combine_by_nccl = [&] { sm90::nccl_combine(returned, cuda.context()); };
    const double others = static_cast<double>(size - 1);
    rank.time_by_nccl("dispatch sm90/nccl", shape, row_values * others, send_by_nccl);
    rank.time_by_nccl("combine sm90/nccl", shape, 2 * row_values * kChosen * others, combine_by_nccl);
    rank.time_by_nccl("dispatch + combine sm90/nccl", shape, row_values * (1 + 2 * kChosen) * others, [&] {
      send_by_nccl();
      combine_by_nccl();
    });
  }
  const double dense_bytes = 6 * row_values * static_cast<double>(size - 1);
  std::vector<RowRange> rows;
  for (std::int64_t i = 0; i < size; ++i) rows.push_back({i * tokens, (i + 1) * tokens});
  rank.time("all_gather + reduce_scatter sm90/peers", shape, dense_bytes, [&] {
    sm90::all_gather({.group = &rank.group,
                      .x = View<const Bf16Bits, 2>(x, {tokens, kWidth}),
                      .rows = rows,
                      .y = View<Bf16Bits, 2>(all, {size * tokens, kWidth})},
                     cuda.context());
    sm90::reduce_scatter({.group = &rank.group,
                          .x = ConstActivations<2>(sums, {size * tokens, kWidth}),
                          .rows = rows,
                          .y = View<Bf16Bits, 2>(out, {tokens, kWidth})},
                         cuda.context());
  });
  if (rank.nccl == nullptr) return;
  rank.time("all_gather + reduce_scatter NCCL", shape, dense_bytes, [&] {
    const NcclLibrary& library = rank.nccl->library();
    NcclLibrary::Comm comm = rank.nccl->comm();
    const auto count = static_cast<std::size_t>(tokens * kWidth);
    library.check(library.all_gather(x, all, count, NcclLibrary::kBfloat16, comm, rank.stream()), "gather");
    library.check(library.reduce_scatter(sums, outputs, count, NcclLibrary::kFloat32, NcclLibrary::kSum, comm,
                                         rank.stream()),
                  "reduce-scatter");
  });
}

/// One rank's experts of a layer in FP4 and the shared one in FP8, pieces of random bytes.
class FlashShare {
 public:
  FlashShare(TestCuda& cuda, std::int64_t num_slots, unsigned seed) : cuda_(cuda), random_(seed) {
    codes_ = random_bytes([](unsigned byte) { return (byte & 0x7F) == 0x7F ? 0 : byte; });  // no NaN
    scales_ = random_bytes([](unsigned byte) { return 117 + byte % 4; });
    slots_.resize(static_cast<std::size_t>(num_slots));
    using E = ExpertWeights;
    for (WeightMatrix ExpertWeights::*which : {&E::w1, &E::w2, &E::w3}) {
      const std::int64_t rows = which == &E::w2 ? kWidth : kInner, cols = kWidth * kInner / rows;
      const std::int64_t values = rows * cols;
      auto* const codes = cuda.allocate<std::byte>(num_slots * values / 2);
      auto* const scales = cuda.allocate<std::byte>(num_slots * values / 32);
      for (std::int64_t slot = 0; slot < num_slots; ++slot) {
        fill(codes + slot * values / 2, values / 2, codes_);
        fill(scales + slot * values / 32, values / 32, scales_);
        slots_[static_cast<std::size_t>(slot)].*
            which = {.format = WeightFormat::kFp4,
                     .rows = rows,
                     .cols = cols,
                     .data = codes + slot * values / 2,
                     .group_scales = reinterpret_cast<const std::uint8_t*>(scales) + slot * values / 32};
      }
      auto* const shared_codes = cuda.allocate<std::byte>(values);
      fill(shared_codes, values, codes_);
      shared_.*which = {.format = WeightFormat::kFp8,
                        .rows = rows,
                        .cols = cols,
                        .data = shared_codes,
                        .block_scales = cuda.upload(
                            std::vector<float>(static_cast<std::size_t>(values / 128 / 128), 0x1p-12F))};
    }
    cuda.synchronise();
  }
  [[nodiscard]] test::ExchangedLayer layer() const {
    return {.slots = slots_, .shared = &shared_, .num_experts = kExperts};
  }

 private:
  static constexpr std::int64_t kBytes = 48 << 20;  ///< of which pieces are taken anywhere

  template <class Change>
  const std::byte* random_bytes(Change&& change) {
    std::vector<std::byte> bytes(kBytes);
    for (std::byte& byte : bytes)
      byte = static_cast<std::byte>(change(static_cast<unsigned>(random_() >> 24)));
    return cuda_.upload(bytes);
  }
  void fill(std::byte* to, std::int64_t count, const std::byte* from) {
    const auto offset = static_cast<std::int64_t>(random_()) % ((kBytes - count) / 16) * 16;
    check_cuda(cudaMemcpyAsync(to, from + offset, static_cast<std::size_t>(count), cudaMemcpyDeviceToDevice,
                               cuda_.context().stream),
               "copying weights");
  }

  TestCuda& cuda_;
  std::mt19937 random_;
  const std::byte* codes_ = nullptr;
  const std::byte* scales_ = nullptr;
  std::vector<ExpertWeights> slots_;
  ExpertWeights shared_;
};

/// A layer's experts for so many tokens of each rank, by both ways; true where fused is quicker.
bool bench_experts(const Rank& rank, const FlashShare& share, std::int64_t tokens) {
  constexpr int kSets = 5, kLayers = 10;  // tokens that choose other experts; calls of a graph
  TestCuda& cuda = rank.cuda;
  std::mt19937 random(static_cast<unsigned>(100 * tokens + rank.group.place));
  std::normal_distribution<float> normal;
  std::vector<std::unique_ptr<test::RankCall>> calls;
  for (int set = 0; set < kSets; ++set) {
    std::vector<float> x(static_cast<std::size_t>(tokens * kWidth));
    for (float& value : x) value = normal(random);
    const std::vector<std::int32_t> ids = random_ids(tokens, random);
    const std::vector<float> weights(ids.size(), 0.25F);
    calls.push_back(std::make_unique<test::RankCall>(
        cuda, rank.group, share.layer(), test::ExchangedTokens{tokens, kChosen, x, ids, weights}, tokens));
  }
  bool same_bits = true;
  for (const auto& call : calls) {
    const Bf16Bits* const want = call->renew_out();
    cuda.synchronise();
    rank.ranks.meet();
    call->one_by_one();
    const Bf16Bits* const got = call->renew_out();
    call->fused();
    cuda.synchronise();
    const auto count = tokens * kWidth;
    same_bits = same_bits && cuda.download(want, count) == cuda.download(got, count);
    rank.ranks.meet();
  }
  if (!same_bits) fmt::print("rank {}: {} tokens: fused gives OTHER BITS\n", rank.group.place, tokens);
  const auto time = [&](auto&& run) {
    rank.ranks.meet();
    const Timing timing = time_launches(rank.stream(), kLayers, run);
    rank.ranks.meet();
    return timing;
  };
  const auto call_of = [&](int i) -> test::RankCall& { return *calls[static_cast<std::size_t>(i % kSets)]; };
  const Timing one_by_one = time([&](int i) { call_of(i).one_by_one(); });
  const Timing fused = time([&](int i) { call_of(i).fused(); });
  if (rank.group.place == 0) {
    const std::string shape = fmt::format("{} tokens a rank on {} ranks", tokens, rank.group.size());
    report("experts over ranks one by one", shape, one_by_one, 0, 0);
    report("experts over ranks fused", shape, fused, 0, 0,
           fmt::format("{:.3f} of one by one", fused.median_us / one_by_one.median_us));
  }
  return fused.median_us < one_by_one.median_us;
}

void bench_all_experts(const Rank& rank) {
  const std::int64_t size = rank.group.size();
  const FlashShare share(rank.cuda, kExperts / size, static_cast<unsigned>(rank.group.place + 1));
  std::string quicker;
  for (const std::int64_t tokens : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256}) {
    if (bench_experts(rank, share, tokens)) quicker += fmt::format(" {}", tokens);
  }
  if (rank.group.place == 0) fmt::print("# fused is quicker for tokens a rank:{}\n", quicker);
}

void bench_ranks(bool only_experts) {
  const std::int64_t num_ranks = test::num_gpus();
  if (num_ranks < 2) return;
  if (only_experts) {
    GpuRanks ranks(num_ranks, std::chrono::seconds(20), kExpertScratch);
    ranks.run([&](TestCuda& cuda, const RankGroup& group) {
      bench_all_experts({cuda, group, ranks, nullptr});
    });
    return;
  }
  LocalExchange exchange(std::chrono::seconds(60));
  GpuRanks ranks(num_ranks, std::chrono::seconds(20), kExpertScratch);
  ranks.run([&](TestCuda& cuda, const RankGroup& group) {
    LocalCommunicator host(exchange);
    std::optional<NcclRank> nccl;
    if (have_nccl()) {
      int gpu = 0;
      check_cuda(cudaGetDevice(&gpu), "asking for the current GPU");
      nccl.emplace(gpu, group.rank(), group.size(), host, std::chrono::seconds(60));
    }
    const Rank rank{cuda, group, ranks, nccl ? &*nccl : nullptr, cuda.context().peers};
    for (const std::int64_t kib : {4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384, 65536})
      bench_all_reduce(rank, kib << 10);
    for (const std::int64_t tokens : {1, 8, 32, 64, 128, 256, 1024, 4096}) bench_dispatch(rank, tokens);
    bench_all_experts(rank);
  });
}

}  // namespace
}  // namespace baleen::bench

int main(int argc, char** argv) {
  baleen::bench::bench_ranks(argc > 1 && std::string(argv[1]) == "experts");
  return 0;
}
