/// Experts on disk: reads them out of the mapped checkpoint where a step needs them.
///
/// Copying kernels ask through `ExpertReadRequest`, which a thread of the host watches: it stages one
/// expert after the other in pinned memory, as far ahead as there is room. Captured steps need not be cut
/// for that.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "model/weight_tree.h"
#include "moe/residence/expert_block.h"
#include "parallel/thread_pool.h"
#include "tensor/buffer.h"

namespace baleen {

class ExpertReader {
 public:
  /// Of `blocks`, whose arrays must outlive this, and of each of which `shapes` has the shape; `unit` bytes
  /// hold any. `pinned`: memory that kernels reach at the same addresses as the host does; `device`: theirs.
  /// `made` makes arrays that are not there yet, each time that one is read.
  ExpertReader(std::span<const BlockWeights> blocks, std::span<const ExpertBlock> shapes, std::int64_t unit,
               Memory& pinned, Memory& device, std::shared_ptr<const MadeBytes> made = nullptr);
  ExpertReader(const ExpertReader&) = delete;
  ExpertReader& operator=(const ExpertReader&) = delete;
  ~ExpertReader();

  /// For kernels of `block`.
  [[nodiscard]] ExpertReads reads(std::int64_t block) const;
  /// Copies an expert's arrays to `to` as a block. By any thread.
  void read(std::int64_t block, std::int64_t expert, std::byte* to);
  /// An expert's arrays in the checkpoint.
  [[nodiscard]] std::array<ExpertBlock::Piece, ExpertBlock::kNumPieces> pieces(std::int64_t block,
                                                                               std::int64_t expert) const {
    const auto number = static_cast<std::size_t>(block);
    return shapes_[number].pieces(weights(block, expert));
  }
  /// The expert in the checkpoint, and what makes its arrays if they are not there yet.
  [[nodiscard]] const ExpertWeights& weights(std::int64_t block, std::int64_t expert) const {
    return experts_[static_cast<std::size_t>(block)][static_cast<std::size_t>(expert)];
  }
  [[nodiscard]] const MadeBytes* made() const { return made_.get(); }
  /// Throws `LostDevice` when a kernel has waited for too long.
  void check() const;

  /// Room for experts that the calling thread reads for steps of many tokens: two halves, used in turn.
  [[nodiscard]] std::byte* prompt_stage(std::int64_t place) const {
    return prompt_stages_.data() + place * unit_;
  }

  static constexpr std::int64_t kStages = 8;  ///< for kernels
  static constexpr std::int64_t kPromptStages = 8;
  [[nodiscard]] static std::int64_t host_bytes(std::int64_t block_bytes) {
    return (kStages + kPromptStages) * block_bytes;
  }

 private:
  [[nodiscard]] ExpertReadRequest& request() const {
    return *reinterpret_cast<ExpertReadRequest*>(request_.data());
  }
  void serve(const std::stop_token& stop);
  void answer(std::uint64_t number, const std::stop_token& stop);

  std::vector<ExpertBlock> shapes_;
  std::int64_t unit_ = 0;
  std::shared_ptr<const MadeBytes> made_;
  std::vector<std::vector<ExpertWeights>> experts_;  ///< [blocks][experts] in the checkpoint
  Buffer request_;
  Buffer stages_;
  Buffer prompt_stages_;
  Buffer state_;  ///< ExpertReadState on the device
  std::mutex reading_;
  ThreadPool pool_;
  std::jthread thread_;
};

}  // namespace baleen
