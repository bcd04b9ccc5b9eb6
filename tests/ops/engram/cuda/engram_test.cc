// Engram's two operations on the GPU: rows of tables to the bit from the GPU's memory, the host's, records;
// streams within rounding of the reference, rows by themselves to the bit.
#include "ops/engram/cuda/engram.h"

#include <gtest/gtest.h>

#include <random>

#include "cuda/cuda_memory.h"
#include "tests/support/compare.h"
#include "tests/support/engram_problem.h"
#include "tests/support/test_cuda.h"

namespace baleen::BALEEN_ARCH {
namespace {

using test::EngramProblem;

struct StreamsOnGpu {
  Bf16Bits* streams;
  EngramArgs args;
};

StreamsOnGpu upload(test::TestCuda& cuda, EngramProblem& problem) {
  EngramArgs args = problem.args();
  Bf16Bits* const streams = cuda.upload_bf16(problem.streams);
  args.tokens = {cuda.upload(problem.tokens), problem.tokens.size()};
  args.projected = View<const Bf16Bits, 2>(cuda.upload_bf16(problem.projected),
                                           {problem.num_rows, (problem.num_streams + 1) * problem.width});
  args.q_weight = {cuda.upload(problem.q_weight), {problem.num_streams, problem.width}};
  args.k_weight = {cuda.upload(problem.k_weight), {problem.num_streams, problem.width}};
  args.streams = View<Bf16Bits, 3>(streams, {problem.num_rows, problem.num_streams, problem.width});
  return {streams, args};
}

TEST(EngramOnGpu, AddsWhatTheReferenceAdds) {
  BALEEN_NEEDS_GPU();
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 8}, {1, 8}, {3, 136}, {1, 5120}, {513, 5120}, {2, 9216}}) {
    test::TestCuda cuda;
    EngramProblem problem(rows, 4, width, 7);
    const StreamsOnGpu on_gpu = upload(cuda, problem);
    EngramArgs args = on_gpu.args, want = problem.args();
    args.image_token = want.image_token = 1;  // row 1's
    BALEEN_ARCH::engram(args, cuda.context());
    engram_ref(want);
    cuda.synchronise();
    // A sum between two BF16 numbers may be rounded to either.
    EXPECT_CLOSE(cuda.download_bf16(on_gpu.streams, std::ssize(problem.streams)), problem.streams,
                 {.absolute = 1e-5, .relative = 0x1p-7, .norm = 1e-3})
        << rows << " x " << width;
  }
}

TEST(EngramOnGpu, ARowDoesNotDependOnItsCompany) {
  BALEEN_NEEDS_GPU();
  constexpr std::int64_t kRows = 9, kWidth = 5120, kStream = 4 * kWidth;
  test::TestCuda cuda;
  EngramProblem problem(kRows, 4, kWidth, 11);
  const StreamsOnGpu together = upload(cuda, problem), alone = upload(cuda, problem);
  BALEEN_ARCH::engram(together.args, cuda.context());
  for (std::int64_t row = 0; row < kRows; ++row) {
    EngramArgs one = alone.args;
    one.tokens = one.tokens.subspan(static_cast<std::size_t>(row), 1);
    one.projected = one.projected.slice(row, row + 1);
    one.streams = one.streams.slice(row, row + 1);
    BALEEN_ARCH::engram(one, cuda.context());
  }
  cuda.synchronise();
  EXPECT_EQ(cuda.download(together.streams, kRows * kStream), cuda.download(alone.streams, kRows * kStream));
}

/// Below zero, and too small for float32.
TEST(EngramOnGpu, ANegativeZeroClosesTheGate) {
  BALEEN_NEEDS_GPU();
  test::TestCuda cuda;
  for (const float sign : {-1.0F, 1.0F}) {
    EngramProblem problem(1, 1, 8, 1);
    std::ranges::fill(problem.streams, 0.0F);
    std::ranges::fill(problem.projected, 0.0F);
    std::ranges::fill(problem.q_weight, float_to_bf16(0x1p-16F));
    std::ranges::fill(problem.k_weight, float_to_bf16(1.0F));
    problem.streams[0] = sign * 0x1p-133F;
    problem.projected[0] = 1.0F;
    problem.projected[1] = 0x1p60F;
    problem.projected[8 + 3] = 1024.0F;
    problem.streams[3] = -512.0F;  // with 1024 times 0.49975 or 0.50025 little is left
    const StreamsOnGpu on_gpu = upload(cuda, problem);
    BALEEN_ARCH::engram(on_gpu.args, cuda.context());
    cuda.synchronise();
    EXPECT_NEAR(cuda.download_bf16(on_gpu.streams, 8)[3], sign * 0.256F, 0.002F);
  }
}

TEST(EngramLookupOnGpu, EveryPlaceGivesTheBitsOfTheReference) {
  BALEEN_NEEDS_GPU();
  std::mt19937 random(3);
  for (const auto& [num_rows, width] :
       {std::pair<std::int64_t, std::int64_t>{0, 256}, {1, 256}, {3, 32}, {513, 256}, {7, 96}}) {
    constexpr std::int64_t kTableRows = 1000, kHashes = 24;
    const std::int64_t num_scales = width / 32, record = (width + num_scales + 15) / 16 * 16;
    test::TestCuda cuda;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(kTableRows * width));
    std::vector<std::uint8_t> scales(static_cast<std::size_t>(kTableRows * num_scales));
    for (std::uint8_t& code : codes) code = static_cast<std::uint8_t>(random());
    for (std::uint8_t& scale : scales) scale = static_cast<std::uint8_t>(random());
    std::vector<std::uint8_t> records(static_cast<std::size_t>(kTableRows * record), 0xFF);
    for (std::int64_t row = 0; row < kTableRows; ++row) {
      std::copy_n(codes.begin() + row * width, width, records.begin() + row * record);
      std::copy_n(scales.begin() + row * num_scales, num_scales, records.begin() + row * record + width);
    }
    std::vector<std::int64_t> rows(static_cast<std::size_t>(num_rows * 2 * kHashes));
    for (std::int64_t& row : rows) row = static_cast<std::int64_t>(random() % kTableRows);
    const View<const std::int64_t, 2> second(rows.data() + kHashes, {num_rows, kHashes}, {2 * kHashes, 1});
    std::vector<float> want(static_cast<std::size_t>(num_rows * kHashes * width));
    engram_lookup_ref({.rows = second,
                       .codes = {codes.data(), {kTableRows, width}},
                       .scales = {scales.data(), {kTableRows, num_scales}},
                       .z = {want.data(), {num_rows, kHashes * width}}});

    CudaPinnedMemory pinned;
    Buffer on_host(static_cast<std::int64_t>(codes.size() + scales.size()), pinned);
    auto* const host_codes = reinterpret_cast<std::uint8_t*>(on_host.data());
    std::ranges::copy(codes, host_codes);
    std::ranges::copy(scales, host_codes + codes.size());
    const std::uint8_t* const on_device = cuda.upload(codes);
    const std::uint8_t* const scales_on_device = cuda.upload(scales);
    const std::uint8_t* const as_records = cuda.upload(records);
    struct Table {
      View<const std::uint8_t, 2> codes, scales;
    };
    const Table tables[] = {
        {{on_device, {kTableRows, width}}, {scales_on_device, {kTableRows, num_scales}}},
        {{host_codes, {kTableRows, width}}, {host_codes + codes.size(), {kTableRows, num_scales}}},
        {{as_records, {kTableRows, width}, {record, 1}},
         {as_records + width, {kTableRows, num_scales}, {record, 1}}}};
    const std::int64_t* const rows_on_device = cuda.upload(rows);
    for (const Table& table : tables) {
      auto* const z = cuda.allocate<Bf16Bits>(num_rows * kHashes * width);
      BALEEN_ARCH::engram_lookup({.rows = {rows_on_device + kHashes, {num_rows, kHashes}, {2 * kHashes, 1}},
                                  .codes = table.codes,
                                  .scales = table.scales,
                                  .z = View<Bf16Bits, 2>(z, {num_rows, kHashes * width})},
                                 cuda.context());
      cuda.synchronise();
      EXPECT_CLOSE(cuda.download_bf16(z, std::ssize(want)), want, {}) << num_rows << " x " << width;
    }
  }
}

}  // namespace
}  // namespace baleen::BALEEN_ARCH
