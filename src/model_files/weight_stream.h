/// Writes a whole model from a source that makes one tensor after the other; init and convert are two such
/// sources.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint_writer.h"
#include "model/tensor_table.h"
#include "model_files/matrix_codec.h"

namespace baleen {

class WeightSource {
 public:
  using Sink = std::function<void(std::span<const std::byte>)>;

  virtual ~WeightSource() = default;
  /// Hands the bytes of a tensor that is no matrix to `sink`, in pieces if it likes.
  virtual void write_plain(const TensorSpec& tensor, const Sink& sink) = 0;
  /// Fills `encoded` with weight and scales, of the sizes that `formats` asks for. Called once for each
  /// matrix that `keeps` does not have.
  virtual void encode(const TensorSpec& tensor, EncodedMatrix& encoded) = 0;
  /// Whether the arrays of an encoded tensor are somewhere as they will be written: `copy` has them then.
  [[nodiscard]] virtual bool keeps(const TensorSpec& /*tensor*/) const { return false; }
  /// Hands the bytes of such an array of `tensor` to `sink`, in pieces; of one of `StreamPlan::beside` it is
  /// null.
  virtual void copy(const TensorSpec* /*tensor*/, const TensorHeader& /*array*/, const Sink& /*sink*/) {}
};

struct StreamPlan {
  std::filesystem::path folder;
  std::vector<TensorSpec> table;
  std::vector<TensorHeader> beside = {};  ///< tensors of no table, written behind it
  StorageFormats formats;
  std::int64_t max_shard_bytes = 0;
  std::vector<TextFile> other_files;  ///< config.json last
  std::string job;                    ///< for the progress line
  std::function<bool()> cancelled = {};
};

/// A job ended because its `cancelled` said so; nothing was left behind.
class Cancelled : public Error {
 public:
  using Error::Error;
};

/// Calls `use` for all of `bytes`, some at a time: tables of n-grams are larger than memories.
void for_each_piece(std::span<const std::byte> bytes,
                    const std::function<void(std::span<const std::byte>)>& use);

/// Tensor name -> XXH3 of its bytes.
using Checksums = std::map<std::string, std::string, std::less<>>;

/// Writes all tensors, then the other files; after an error nothing is left behind. Holds one matrix that is
/// encoded and the scales of the current shard, no more, and nothing of arrays that are copied. Throws
/// `Error` as `CheckpointWriter` and the source do, and `Cancelled`.
Checksums write_weights(const StreamPlan& plan, WeightSource& source);

/// Reads a written checkpoint back: its config.json can be read, its tensors are those of `config`, whatever
/// their formats, and every byte is the one that was meant. Throws `Error` otherwise, and `Cancelled`.
void verify_weights(const std::filesystem::path& folder, const ModelConfig& config,
                    const Checksums& checksums, const std::function<bool()>& cancelled = {});

}  // namespace baleen
