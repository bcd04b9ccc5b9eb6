// What operations declare that they read and write, each held against its implementations: they change
// nothing that is not declared as written, and do not depend on what is not declared as read.
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>
#include <type_traits>

#include "comm/local_communicator.h"
#include "ops/operations.h"
#include "tests/support/aggregate_fields.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::GuardedMemory;

constexpr Precision kExact = Precision::kExact;
constexpr std::int64_t kRows = 3, kWidth = 128, kHeads = 2, kPairs = 32;

/// What calls point to beside the memory: in the host's on every device, or no operation writes it.
struct Host {
  RankGroup alone, pair{{0, 1}, 0};
  std::vector<TokenId> tokens = std::vector<TokenId>(kRows);
  std::vector<PageId> pages{static_cast<PageId>(1), static_cast<PageId>(0)};
  std::vector<SequenceSlice> slices{
      {.num_tokens = kRows, .start = 254, .pages = pages, .window_pages = pages}};
  std::vector<RowRange> all_rows{{0, kRows}};
  std::vector<RowPair> pairs{{0, 2}, {2, 0}};
  std::vector<SampleRow> sampled{{.temperature = 0.7, .top_k = 5, .uniform = 0.3}, {}, {}};
  DispatchedRows received;
  std::deque<std::vector<float>> values;
  std::deque<std::vector<Bf16Bits>> halves;
  std::deque<WeightMatrix> weights;
  std::vector<LinearOutput> outputs;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;

  [[nodiscard]] RaggedBatch batch() const { return {tokens, slices}; }
  const WeightMatrix& weight(std::int64_t rows, std::int64_t cols) {
    std::vector<float>& data = values.emplace_back(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7) - 3.0F;
    return weights.emplace_back(
        WeightMatrix{WeightFormat::kF32, rows, cols, reinterpret_cast<const std::byte*>(data.data())});
  }
  const WeightMatrix& weight_bf16(std::int64_t rows, std::int64_t cols) {
    std::vector<Bf16Bits>& data = halves.emplace_back(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = float_to_bf16(static_cast<float>(i % 7) - 3.0F);
    return weights.emplace_back(
        WeightMatrix{WeightFormat::kBF16, rows, cols, reinterpret_cast<const std::byte*>(data.data())});
  }
  ExpertWeights expert() { return {weight(kWidth, kWidth), weight(kWidth, kWidth), weight(kWidth, kWidth)}; }
};

/// Calls of an operation that set every array among its arguments, not all at once. `run` where an
/// implementation needs more than a context.
template <class Op>
struct Example;

HcWeights hc_weights(GuardedMemory& memory, std::int64_t num_mixes, std::int64_t num_scales) {
  return {View<const float, 2>(memory.place<float>(num_mixes * 4 * kWidth), {num_mixes, 4 * kWidth}),
          memory.span<const float>(num_mixes), memory.span<const float>(num_scales)};
}

template <>
struct Example<ops::Embed> {
  static std::vector<EmbedArgs> calls(GuardedMemory& memory, Host&) {
    return {{.tokens = memory.span_of<TokenId>({4, 0, 2}),
             .table = View<const Bf16Bits, 2>(memory.place<Bf16Bits>(5 * kWidth), {5, kWidth}),
             .out = memory.heads(kRows, 4, kWidth)}};
  }
};
template <>
struct Example<ops::EngramLookup> {
  static std::vector<EngramLookupArgs> calls(GuardedMemory& memory, Host&) {
    constexpr std::int64_t kHashes = 2, kTableRows = 5, kScales = kWidth / kEngramScaleColumns;
    const std::vector<std::uint8_t> scales(kTableRows * kScales, 127);
    return {{.rows = {memory.span_of<std::int64_t>({4, 0, 2, 2, 1, 3}).data(), {kRows, kHashes}},
             .codes = {memory.place<std::uint8_t>(kTableRows * kWidth), {kTableRows, kWidth}},
             .scales = {memory.span_of<std::uint8_t>(scales).data(), {kTableRows, kScales}},
             .z = memory.rows(kRows, kHashes * kWidth)}};
  }
};
template <>
struct Example<ops::Engram> {
  static std::vector<EngramArgs> calls(GuardedMemory& memory, Host&) {
    const std::vector<Bf16Bits> ones(4 * kWidth, float_to_bf16(1.0F));
    return {{.tokens = memory.span_of<TokenId>({4, 0, 2}),
             .image_token = 0,
             .projected = memory.rows(kRows, 5 * kWidth),
             .q_weight = {memory.span_of<Bf16Bits>(ones).data(), {4, kWidth}},
             .k_weight = {memory.span_of<Bf16Bits>(ones).data(), {4, kWidth}},
             .eps = 1e-20F,
             .precision = kExact,
             .streams = memory.dense_heads(kRows, 4, kWidth)}};
  }
};
template <>
struct Example<ops::RopeAngles> {
  static std::vector<RopeAnglesArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.frequencies = memory.span<const float>(kPairs),
             .batch = host.batch(),
             .cosine = memory.rows(kRows, kPairs),
             .sine = memory.rows(kRows, kPairs)}};
  }
};
template <>
struct Example<ops::HcPre> {
  static std::vector<HcPreArgs> calls(GuardedMemory& memory, Host&) {
    return {{.streams = memory.dense_heads(kRows, 4, kWidth),
             .weights = hc_weights(memory, 24, 3),
             .precision = kExact,
             .u = memory.rows(kRows, kWidth),
             .post = memory.rows(kRows, 4),
             .comb = memory.heads(kRows, 4, 4),
             .products = memory.rows(kRows, 24),
             .incoming = memory.rows(kRows, 4),
             .pre = memory.rows(kRows, 4)}};
  }
};
template <>
struct Example<ops::HcPost> {
  static std::vector<HcPostArgs> calls(GuardedMemory& memory, Host&) {
    HcPostArgs args{.f = memory.rows(kRows, kWidth),
                    .post = memory.rows(kRows, 4),
                    .comb = memory.heads(kRows, 4, 4),
                    .precision = kExact,
                    .streams = memory.dense_heads(kRows, 4, kWidth)};
    HcPostArgs from_before = args;
    from_before.before = memory.dense_heads(kRows, 4, kWidth);
    return {args, from_before};
  }
};
template <>
struct Example<ops::HcHead> {
  static std::vector<HcHeadArgs> calls(GuardedMemory& memory, Host&) {
    return {{.streams = memory.dense_heads(kRows, 4, kWidth),
             .weights = hc_weights(memory, 4, 1),
             .precision = kExact,
             .y = memory.rows(kRows, kWidth),
             .products = memory.rows(kRows, 4)},
            {.streams = memory.dense_heads(kRows, 4, kWidth),
             .weights = {},
             .precision = kExact,
             .y = memory.rows(kRows, kWidth),
             .given = memory.rows(kRows, 4)}};
  }
};
template <>
struct Example<ops::RmsNorm> {
  static std::vector<RmsNormArgs> calls(GuardedMemory& memory, Host&) {
    return {{.x = memory.rows(kRows, kWidth),
             .weight = memory.span<const float>(kWidth),
             .precision = kExact,
             .y = memory.rows(kRows, kWidth),
             .y_fp8 = memory.fp8_rows(kRows, kWidth)}};
  }
};
template <>
struct Example<ops::Linear> {
  static std::vector<LinearArgs> calls(GuardedMemory& memory, Host& host) {
    for (const std::int64_t width : {8, 24})
      host.outputs.push_back({&host.weight(width, kWidth), memory.rows(kRows, width)});
    return {{.x = memory.rows(kRows, kWidth),
             .x_fp8 = memory.fp8_rows(kRows, kWidth),
             .outputs = host.outputs,
             .precision = kExact}};
  }
};
template <>
struct Example<ops::Rope> {
  static std::vector<RopeArgs> calls(GuardedMemory& memory, Host&) {
    return {{.x = memory.heads(kRows, kHeads, kWidth),
             .cosine = memory.rows(kRows, kPairs),
             .sine = memory.rows(kRows, kPairs),
             .precision = kExact}};
  }
};

constexpr LatentFormat kLatent{.nope = 64, .rope = 2 * kPairs, .precision = kExact};
constexpr IndexKeyFormat kIndexKey{.dim = kWidth, .precision = kExact};

/// `num_pages` pages, further apart than they are long.
template <class Pool, class Format>
Pool pages(GuardedMemory& memory, const Format& format, int rows_per_page, std::int64_t num_pages) {
  const std::int64_t stride = rows_per_page * format.row_bytes() + 64;
  return {memory.place<std::byte>(num_pages * stride), stride, rows_per_page, format, num_pages};
}

template <>
struct Example<ops::KvStore> {
  static std::vector<KvStoreArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.kv = memory.rows(kRows, kLatent.width()),
             .weight = memory.span<const float>(kLatent.width()),
             .cosine = memory.rows(kRows, kPairs),
             .sine = memory.rows(kRows, kPairs),
             .batch = host.batch(),
             .window = pages<LatentPool>(memory, kLatent, 256, 2)}};
  }
};
template <>
struct Example<ops::Compressor> {
  static std::vector<CompressorArgs> calls(GuardedMemory& memory, Host& host) {
    const auto call = [&](std::int64_t head_dim) {
      const std::int64_t width = 2 * head_dim, slot = 2 * 8 * width;
      return CompressorArgs{
          .kv = memory.rows(kRows, width),
          .gate = memory.rows(kRows, width),
          .ape = View<const float, 2>(memory.place<float>(4 * width), {4, width}),
          .norm_weight = memory.span<const float>(head_dim),
          .frequencies = memory.span<const float>(kPairs),
          .precision = kExact,
          .batch = host.batch(),
          .state = {memory.place<float>(2 * (slot + 16)), slot + 16, 8, width, 2},
          .overlap = {memory.place<float>(2 * (8 * head_dim + 16)), 8 * head_dim + 16, head_dim, 2}};
    };
    CompressorArgs main = call(kLatent.width()), index = call(kWidth);
    main.latent = pages<LatentPool>(memory, kLatent, 64, 2);
    index.index_key = pages<IndexKeyPool>(memory, kIndexKey, 64, 2);
    return {main, index};
  }
};
template <>
struct Example<ops::Latent> {
  static std::vector<LatentArgs> calls(GuardedMemory& memory, Host& host) {
    const std::int64_t width = kLatent.width(), slot = 2 * 4 * width;
    LatentArgs pairs{.kv = memory.rows(kRows, width),
                     .gate = memory.rows(kRows, width),
                     .norm_weight = memory.span<const float>(width),
                     .precision = kExact,
                     .batch = host.batch(),
                     .state = {memory.place<float>(2 * (slot + 16)), slot + 16, 4, width, 2},
                     .latent = memory.rows(kRows, width)};
    LatentArgs single = pairs;
    single.ratio = 1;
    single.gate = {};
    single.state = {};
    return {pairs, single};
  }
};
template <>
struct Example<ops::EntryStore> {
  static std::vector<EntryStoreArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.latent = memory.rows(kRows, kLatent.width()),
             .key = memory.rows(kRows, kWidth),
             .key_norm = memory.span<const float>(kWidth),
             .frequencies = memory.span<const float>(kPairs),
             .ratio = 1,
             .batch = host.batch(),
             .entries = pages<LatentPool>(memory, kLatent, 256, 2),
             .index_keys = pages<IndexKeyPool>(memory, kIndexKey, 256, 2)}};
  }
};
template <>
struct Example<ops::Indexer> {
  static std::vector<IndexerArgs> calls(GuardedMemory& memory, Host& host) {
    IndexerArgs plain{.q = memory.heads(kRows, kHeads, kWidth),
                      .head_weights = memory.rows(kRows, kHeads),
                      .cosine = memory.rows(kRows, kPairs),
                      .sine = memory.rows(kRows, kPairs),
                      .precision = kExact,
                      .batch = host.batch(),
                      .keys = pages<IndexKeyPool>(memory, kIndexKey, 64, 2),
                      .selected = memory.ids(kRows, 16)};
    IndexerArgs choosing = plain;
    choosing.blocks = {.size = 4, .chosen = memory.ids(kRows, 3), .given = {}};
    IndexerArgs restricted = plain;
    restricted.blocks = {.size = 4,
                         .chosen = {},
                         .given = memory.ids(kRows, 5, {0, 1, 3, 5, 14, 2, 3, 4, 9, 15, 1, 2, 6, 7, 8})};
    return {plain, choosing, restricted};
  }
};
template <>
struct Example<ops::SparseAttention> {
  static std::vector<SparseAttentionArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.q = memory.heads(kRows, kHeads, kLatent.width()),
             .batch = host.batch(),
             .window = pages<LatentPool>(memory, kLatent, 256, 2),
             .compressed = pages<LatentPool>(memory, kLatent, 64, 2),
             .ratio = 4,
             .selected = memory.ids(kRows, 3, {0, 5, 9, 1, 2, -1, 3, 61, 62}),
             .sink = memory.span<const float>(kHeads),
             .scale = 0.1F,
             .precision = kExact,
             .out = memory.heads(kRows, kHeads, kLatent.width())}};
  }
};
template <>
struct Example<ops::GroupedLinear> {
  static std::vector<GroupedLinearArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.x = memory.heads(kRows, 2, kWidth),
             .weight = &host.weight(2 * 8, kWidth),
             .y = memory.rows(kRows, 2 * 8),
             .precision = kExact}};
  }
};
template <>
struct Example<ops::Route> {
  static std::vector<RouteArgs> calls(GuardedMemory& memory, Host&) {
    RouteArgs best{.logits = memory.rows(kRows, 8),
                   .bias = memory.span<const float>(8),
                   .ids = memory.ids(kRows, 2),
                   .weights = memory.rows(kRows, 2),
                   .load = memory.span_of<std::int64_t>(std::vector<std::int64_t>(8)),
                   .routed = memory.place<std::int32_t>(1)};
    RouteArgs hashed = best;
    hashed.bias = {};
    hashed.hash_table = memory.ids(5, 2, {1, 2, 3, 4, 5, 6, 7, 0, 2, 4});
    hashed.tokens = memory.span_of<TokenId>({4, 0, 2});
    return {best, hashed};
  }
};
template <>
struct Example<ops::Experts> {
  static std::vector<ExpertsArgs> calls(GuardedMemory& memory, Host& host) {
    for (int i = 0; i < 4; ++i) host.experts.push_back(host.expert());
    host.shared = host.expert();
    return {{.x = memory.rows(kRows, kWidth),
             .x_fp8 = memory.fp8_rows(kRows, kWidth),
             .ids = memory.ids(kRows, 2, {0, 3, 1, -1, 2, 0}),
             .weights = memory.rows(kRows, 2),
             .routed = host.experts,
             .shared = &host.shared,
             .precision = kExact,
             .out = memory.rows(kRows, kWidth)}};
  }
};
template <>
struct Example<ops::MtpCombine> {
  static std::vector<MtpCombineArgs> calls(GuardedMemory& memory, Host&) {
    return {{.embedded = memory.rows(kRows, kWidth),
             .precision = kExact,
             .streams = memory.dense_heads(kRows, 4, kWidth)}};
  }
};
template <>
struct Example<ops::StreamMean> {
  static std::vector<StreamMeanArgs> calls(GuardedMemory& memory, Host&) {
    return {{.streams = memory.dense_heads(kRows, 4, kWidth),
             .precision = kExact,
             .out = memory.rows(kRows, 3 * kWidth),
             .first_column = kWidth}};
  }
};
template <>
struct Example<ops::LmHead> {
  static std::vector<LmHeadArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.x = memory.rows(kRows, kWidth),
             .weight = &host.weight(24, kWidth),
             .logits = memory.rows(kRows, 24)}};
  }
};
template <>
struct Example<ops::Markov> {
  static std::vector<MarkovArgs> calls(GuardedMemory& memory, Host& host) {
    constexpr std::int64_t kRank = 16, kVocab = 24;
    std::vector<Bf16Bits> table(5 * kRank);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = float_to_bf16(static_cast<float>(i % 7) - 3.0F);
    MarkovArgs args{.tokens = memory.span_of<TokenId>({4, 0, 2}),
                    .w1 = {memory.span_of<Bf16Bits>(table).data(), {5, kRank}},
                    .w2 = &host.weight_bf16(kVocab, kRank),
                    .logits = memory.rows(kRows, kVocab)};
    MarkovArgs with_confidence = args;
    with_confidence.hidden = memory.rows(kRows, kWidth);
    with_confidence.confidence_weight = memory.span<const float>(kWidth + kRank);
    with_confidence.confidence = memory.span<float>(kRows);
    return {args, with_confidence};
  }
};
template <>
struct Example<ops::GatherRows> {
  static std::vector<GatherRowsArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.from = memory.dense_rows(kRows, kWidth),
             .pairs = host.pairs,
             .to = memory.dense_rows(kRows, kWidth)}};
  }
};
template <>
struct Example<ops::Sample> {
  static std::vector<SampleArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.logits = memory.rows(kRows, 24), .rows = host.sampled, .ids = memory.span<TokenId>(kRows)}};
  }
};
template <>
struct Example<ops::Dispatch> {
  static std::vector<DispatchArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.placement = {.stage = &host.alone, .num_experts = 4},
             .x = memory.rows(kRows, kWidth),
             .x_fp8 = memory.fp8_rows(kRows, kWidth),
             .ids = memory.ids(kRows, 2, {0, 3, 1, -1, 2, 0}),
             .weights = memory.rows(kRows, 2),
             .arrived = memory.dense_rows(2 * kRows, kWidth),
             .arrived_fp8 = memory.fp8_rows(2 * kRows, kWidth),
             .arrived_ids = memory.ids(2 * kRows, 1),
             .arrived_weights = memory.rows(2 * kRows, 1),
             .received = &host.received}};
  }
  static void run(const DispatchArgs& args) { dispatch_ref({&args, 1}); }
};
template <>
struct Example<ops::Combine> {
  static std::vector<CombineArgs> calls(GuardedMemory& memory, Host& host) {
    host.received = {.num_rows = 5, .rows_from = {5}, .experts = memory.place<std::int32_t>(5)};
    return {{.placement = {.stage = &host.alone, .num_experts = 4},
             .y = memory.dense_rows(5, kWidth),
             .received = &host.received,
             .ids = memory.ids(kRows, 2, {0, 3, 1, -1, 2, 0}),
             .shared = memory.rows(kRows, kWidth),
             .precision = kExact,
             .out = memory.rows(kRows, kWidth)}};
  }
  static void run(const CombineArgs& args) { combine_ref({&args, 1}); }
};
template <>
struct Example<ops::AllReduce> {
  static std::vector<AllReduceArgs> calls(GuardedMemory& memory, Host& host) {
    return {{&host.alone, memory.dense_rows(kRows, kWidth), kExact, memory.dense_rows(kRows, kWidth)}};
  }
  static void run(const AllReduceArgs& args) { all_reduce_ref({&args, 1}); }
};
template <>
struct Example<ops::AllGather> {
  static std::vector<AllGatherArgs> calls(GuardedMemory& memory, Host& host) {
    return {{&host.alone, memory.dense_rows(kRows, kWidth), host.all_rows, memory.dense_rows(kRows, kWidth)}};
  }
  static void run(const AllGatherArgs& args) { all_gather_ref({&args, 1}); }
};
template <>
struct Example<ops::ReduceScatter> {
  static std::vector<ReduceScatterArgs> calls(GuardedMemory& memory, Host& host) {
    return {{&host.alone, memory.dense_rows(kRows, kWidth), host.all_rows, kExact,
             memory.dense_rows(kRows, kWidth)}};
  }
  static void run(const ReduceScatterArgs& args) { reduce_scatter_ref({&args, 1}); }
};
template <>
struct Example<ops::AllToAll> {
  static std::vector<AllToAllArgs> calls(GuardedMemory& memory, Host& host) {
    return {{&host.alone, memory.dense_rows(kRows, kWidth), memory.dense_rows(kRows, kWidth)}};
  }
  static void run(const AllToAllArgs& args) { all_to_all_ref({&args, 1}); }
};

/// By `Op` here and by `Other` on the other rank of a pair.
template <class Op, class Other>
void run_with(const typename Op::Args& args, const typename Other::Args& other_args) {
  LocalExchange exchange(std::chrono::seconds(60));
  const auto run = [&]<class Any>(std::type_identity<Any>, const typename Any::Args& own) {
    LocalCommunicator communicator(exchange);
    test::TestCpu cpu;
    cpu.context.communicator = &communicator;
    cpu.run<Any>(own);
  };
  const std::jthread other([&] { run(std::type_identity<Other>(), other_args); });
  run(std::type_identity<Op>(), args);
}
const RankGroup kOtherOfPair{{0, 1}, 1};

template <>
struct Example<ops::Send> {
  static std::vector<SendArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.pair = &host.pair, .x = memory.dense_heads(kRows, 4, 8)}};
  }
  static void run(const SendArgs& args) {
    std::vector<float> sent(static_cast<std::size_t>(args.x.size()));
    run_with<ops::Send, ops::Receive>(args, {&kOtherOfPair, {sent.data(), args.x.extents()}});
  }
};
template <>
struct Example<ops::Receive> {
  static std::vector<ReceiveArgs> calls(GuardedMemory& memory, Host& host) {
    return {{.pair = &host.pair, .y = memory.dense_heads(kRows, 4, 8)}};
  }
  static void run(const ReceiveArgs& args) {
    std::vector<float> sent(static_cast<std::size_t>(args.y.size()), 0.5F);
    run_with<ops::Receive, ops::Send>(
        args, {.pair = &kOtherOfPair, .x = ConstActivations<3>(sent.data(), args.y.extents())});
  }
};

/// Whether an argument is an array of values, and not of the host's descriptions.
template <class Field>
constexpr bool kIsArray = requires(const Field& field) {
  range_of(field);
};
template <class T>
constexpr bool kIsArray<std::span<T>> = !std::is_class_v<T>;

template <class Op>
std::vector<typename Op::Args> calls(GuardedMemory& memory, Host& host) {
  return Example<Op>::calls(memory, host);
}

bool declares(const Accesses& accesses, const std::byte* address) {
  const auto has = [&](const MemoryRange& range) { return range.has(address); };
  return std::ranges::any_of(accesses.reads(), has) || std::ranges::any_of(accesses.writes(), has);
}

/// Every implementation that a device may choose by itself.
template <class Op, class Check>
void for_each_implementation(const typename Op::Args& args, Check&& check) {
  if constexpr (requires { Example<Op>::run(args); }) {
    check("reference", [&] { Example<Op>::run(args); });
  } else {
    for (const std::string_view name : {kSimdVariant, kReferenceVariant}) {
      for (const CpuVariant<Op>& variant : Op::cpu_variants()) {
        if (variant.name != name || (variant.why_not != nullptr && variant.why_not(args, {}))) continue;
        check(name, [&] {
          test::TestCpu cpu(1, std::int64_t{16} << 20);
          variant.run(args, cpu.context);
        });
      }
    }
  }
}

template <class Op>
void expect_as_declared(const typename Op::Args& args, GuardedMemory& memory) {
  Accesses accesses;
  Op::accesses(args, accesses);
  const std::vector<std::byte> before(memory.bytes().begin(), memory.bytes().end());
  for_each_implementation<Op>(args, [&](std::string_view name, auto&& run) {
    memory.restore(before);
    run();
    const std::vector<std::byte> after(memory.bytes().begin(), memory.bytes().end());
    std::size_t num_changed = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == after[i]) continue;
      ++num_changed;
      ASSERT_TRUE(std::ranges::any_of(
          accesses.writes(), [&](const MemoryRange& range) { return range.has(&memory.bytes()[i]); }))
          << Op::kName << ", " << name << ": byte " << i << " is written and not declared";
    }
    EXPECT_TRUE(num_changed > 0 || accesses.writes().empty()) << Op::kName << ", " << name;
    memory.restore(before);
    memory.scramble_but(accesses.reads(), 2);
    run();
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] == after[i]) continue;
      ASSERT_EQ(memory.bytes()[i], after[i])
          << Op::kName << ", " << name << ": byte " << i << " depends on what is not declared as read";
    }
  });
  memory.restore(before);
}

template <class Op>
class DeclaredAccesses : public ::testing::Test {};

template <class List>
struct AsTestTypes;
template <class... Ops>
struct AsTestTypes<TypeList<Ops...>> {
  using Types = ::testing::Types<Ops...>;
};
struct OperationName {
  template <class Op>
  static std::string GetName(int /*index*/) {
    return std::string(Op::kName);
  }
};
TYPED_TEST_SUITE(DeclaredAccesses, AsTestTypes<Operations>::Types, OperationName);

TYPED_TEST(DeclaredAccesses, AreThoseOfTheImplementations) {
  Host host;
  GuardedMemory memory(1);
  for (const auto& args : calls<TypeParam>(memory, host)) expect_as_declared<TypeParam>(args, memory);
}

/// Of every array, even those that the CPU's implementations do not touch.
TYPED_TEST(DeclaredAccesses, NameEveryArrayAmongTheArguments) {
  Host host;
  GuardedMemory memory(1);
  std::vector<bool> is_set(test::num_fields<typename TypeParam::Args>());
  for (const auto& args : calls<TypeParam>(memory, host)) {
    Accesses accesses;
    TypeParam::accesses(args, accesses);
    test::for_each_field(args, [&]<class Field>(std::size_t place, const Field& field) {
      if constexpr (kIsArray<Field>) {
        const MemoryRange range = range_of(field);
        if (range.empty()) return;
        is_set[place] = true;
        EXPECT_TRUE(declares(accesses, range.begin)) << "argument " << place;
        EXPECT_TRUE(
            declares(accesses, range.begin + range.row_bytes - 1 + (range.num_rows - 1) * range.stride_bytes))
            << "the end of argument " << place;
      } else {
        is_set[place] = true;
      }
    });
  }
  for (std::size_t place = 0; place < is_set.size(); ++place)
    EXPECT_TRUE(is_set[place]) << "no call of the test sets argument " << place;
}

}  // namespace
}  // namespace baleen
