// Experts on disk: the thread that answers copying kernels, asked as these do.
#include "moe/residence/expert_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "model/presets.h"
#include "model_files/made_up.h"

namespace baleen {
namespace {

class ExpertReaderOf : public testing::Test {
 protected:
  ExpertReaderOf()
      : pool_(1),
        weights_(made_up_weights(preset_config("tiny-flash"), 1, pool_, MadeUpBytes::kOfEachTensor)),
        shape_(weights_->tree().block(0).moe.routed[0]),
        reader_(weights_->tree().blocks,
                std::vector(static_cast<std::size_t>(weights_->config().num_hidden_layers), shape_),
                shape_.bytes(), host_memory(), host_memory()) {}

  [[nodiscard]] bool has_bytes(const std::byte* found, std::int64_t block, std::int64_t expert) const {
    return std::ranges::all_of(reader_.pieces(block, expert), [&](const ExpertBlock::Piece& piece) {
      return piece.bytes.empty() ||
             std::memcmp(found + piece.offset, piece.bytes.data(), piece.bytes.size()) == 0;
    });
  }

  /// As a kernel of `block`: takes each expert when it is there and gives its place back. How many were
  /// right.
  int ask(std::uint64_t number, std::int64_t block, const std::vector<std::int32_t>& experts) {
    const ExpertReads reads = reader_.reads(block);
    ExpertReadRequest& request = *reads.request;
    std::ranges::copy(experts, request.experts);
    request.block = reads.block;
    request.count = static_cast<std::int32_t>(experts.size());
    std::atomic_ref(request.posted).store(number, std::memory_order_release);
    int num_right = 0;
    for (std::size_t i = 0; i < experts.size(); ++i) {
      const std::uint64_t word = number << kRequestShift | (i + 1);
      while (std::atomic_ref(request.answered).load(std::memory_order_acquire) < word)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      const auto stage = static_cast<std::int64_t>(i) % reads.num_staged;
      num_right += has_bytes(reads.staged + stage * shape_.bytes(), block, experts[i]) ? 1 : 0;
      std::atomic_ref(request.taken).store(word, std::memory_order_release);
    }
    return num_right;
  }

  ThreadPool pool_;
  std::unique_ptr<ModelWeights> weights_;
  ExpertBlock shape_;
  ExpertReader reader_;
};

TEST_F(ExpertReaderOf, StagesWhatKernelsAskFor) {
  const auto num_experts = static_cast<std::int32_t>(weights_->config().n_routed_experts);
  std::uint64_t number = 0;
  // Some, none twice, and several times as many as there are stages.
  std::vector<std::int32_t> many;
  for (std::int32_t i = 0; i < 5 * ExpertReader::kStages; ++i) many.push_back(i % num_experts);
  for (const std::vector<std::int32_t>& experts :
       {std::vector<std::int32_t>{1}, many, {0, num_experts - 1}}) {
    for (std::int64_t block = 0; block < 2; ++block)
      EXPECT_EQ(ask(++number, block, experts), std::ssize(experts));
  }
  EXPECT_NO_THROW(reader_.check());
}

TEST_F(ExpertReaderOf, TheThreadThatStepsReadsMeanwhile) {
  std::vector<std::byte> block(static_cast<std::size_t>(shape_.bytes()));
  std::jthread kernels([&] {
    for (std::uint64_t number = 1; number <= 20; ++number) EXPECT_EQ(ask(number, 0, {0, 1, 2}), 3);
  });
  for (int i = 0; i < 20; ++i) {
    reader_.read(1, i % 4, block.data());
    EXPECT_TRUE(has_bytes(block.data(), 1, i % 4));
  }
}

TEST_F(ExpertReaderOf, AKernelThatWaitedTooLongIsASentence) {
  std::atomic_ref(reader_.reads(0).request->given_up).store(1);
  try {
    reader_.check();
    FAIL();
  } catch (const baleen::LostDevice& lost) {
    EXPECT_NE(std::string_view(lost.what()).find("disk"), std::string_view::npos) << lost.what();
  }
}

}  // namespace
}  // namespace baleen
