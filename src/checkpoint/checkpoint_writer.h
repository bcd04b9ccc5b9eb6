/// Writes a whole checkpoint folder, sharded if wanted, tensor by tensor. Nothing appears before all is
/// complete.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/safetensors_writer.h"

namespace baleen {

/// A further file of the folder, e.g. config.json.
struct TextFile {
  std::string name;
  std::string text;
};

class CheckpointWriter {
 public:
  /// Plans shards of at most `max_shard_bytes` of data (a larger tensor gets a shard of its own) by taking
  /// the tensors in the given order, and creates the folder. One shard is called model.safetensors, several
  /// model-00001-of-000NN.safetensors. Throws `Error` when the folder cannot be written, when the disk has
  /// less room than the tensors need, or when the plan asks for more than `kMaxShards`.
  CheckpointWriter(const std::filesystem::path& folder, std::vector<TensorHeader> tensors,
                   std::int64_t max_shard_bytes);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Without `finish`, removes what was written, and the folder if it was created here.
  ~CheckpointWriter();

  /// All shards stay open until `finish`, so that they can appear together.
  static constexpr std::size_t kMaxShards = 512;

  /// The order in which the tensors' bytes must come: by shard, inside a shard as `storage_order`.
  [[nodiscard]] const std::vector<TensorHeader>& order() const { return order_; }
  [[nodiscard]] std::int64_t total_bytes() const { return total_bytes_; }
  [[nodiscard]] std::size_t num_shards() const { return shards_.size(); }

  /// As `SafetensorsWriter::append`.
  void append(std::string_view name, std::span<const std::byte> bytes);

  /// Puts everything in place: shards, index, then `others` in their order (so config.json goes last).
  /// Deletes nothing.
  void finish(std::span<const TextFile> others);

 private:
  struct Shard {
    std::string file_name;
    std::vector<TensorHeader> tensors;  ///< listed in storage order
    std::unique_ptr<SafetensorsWriter> writer;
  };

  void open_incomplete_shard();
  [[nodiscard]] std::string index_text() const;

  std::filesystem::path folder_;
  bool folder_is_ours_ = false;
  bool finished_ = false;
  std::int64_t total_bytes_ = 0;
  std::vector<Shard> shards_;
  std::vector<TensorHeader> order_;
  std::size_t current_ = 0;  ///< shards before this one are complete; later ones have no writer yet
};

}  // namespace baleen
