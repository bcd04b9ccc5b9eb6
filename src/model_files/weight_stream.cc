#include "model_files/weight_stream.h"

#include <algorithm>

#include "base/check.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/map_advice.h"
#include "base/progress.h"
#include "model/model_folder.h"

namespace baleen {
namespace {

/// Where a stored tensor comes from.
struct Origin {
  const TensorSpec* spec = nullptr;  ///< null: it is of no table
  std::size_t array = 0;             ///< a matrix has its weight, 0, then its scales
};

void check_not_cancelled(const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) throw Cancelled("interrupted; nothing was left behind");
}

class Stream {
 public:
  Stream(const StreamPlan& plan, WeightSource& source)
      : source_(source),
        formats_(plan.formats),
        cancelled_(plan.cancelled),
        writer_(plan.folder, plan_tensors(plan), plan.max_shard_bytes),
        progress_(plan.job, "MB", writer_.total_bytes() / kBytesPerUnit) {}

  Checksums run(std::span<const TextFile> other_files) {
    for (const TensorHeader& tensor : writer_.order()) {
      check_not_cancelled(cancelled_);
      write(tensor);
    }
    BALEEN_CHECK(pending_scales_.empty());
    writer_.finish(other_files);
    return std::move(checksums_);
  }

 private:
  static constexpr std::int64_t kBytesPerUnit = 1'000'000;

  std::vector<TensorHeader> plan_tensors(const StreamPlan& plan) {
    std::vector<TensorHeader> tensors;
    for (const TensorSpec& spec : plan.table) {
      std::size_t array = 0;
      for (TensorHeader& tensor : stored_tensors(spec, plan.formats)) {
        origins_.emplace(tensor.name, Origin{&spec, array++});
        tensors.push_back(std::move(tensor));
      }
    }
    for (const TensorHeader& tensor : plan.beside) {
      origins_.emplace(tensor.name, Origin{});
      tensors.push_back(tensor);
    }
    return tensors;
  }

  void write(const TensorHeader& tensor) {
    Checksum checksum;
    const auto sink = [&](std::span<const std::byte> bytes) {
      check_not_cancelled(cancelled_);
      progress_.update(written_bytes_ / kBytesPerUnit, tensor.name);
      writer_.append(tensor.name, bytes);
      checksum.add(bytes);
      written_bytes_ += static_cast<std::int64_t>(bytes.size());
    };
    const Origin& origin = origins_.find(tensor.name)->second;
    if (origin.spec == nullptr || (origin.spec->is_encoded() && source_.keeps(*origin.spec))) {
      source_.copy(origin.spec, tensor, sink);
    } else if (!origin.spec->is_encoded()) {
      source_.write_plain(*origin.spec, sink);
    } else if (origin.array > 0) {
      // The writer puts larger alignments first and keeps the order otherwise, so a weight precedes its
      // scales.
      const auto scale = pending_scales_.extract(tensor.name);
      BALEEN_CHECK(!scale.empty());
      sink(scale.mapped());
    } else {
      source_.encode(*origin.spec, encoded_);
      sink(encoded_.weight);
      const std::vector<TensorHeader> stored = stored_tensors(*origin.spec, formats_);
      const auto scales = encoded_.scales();
      BALEEN_CHECK_EQ(scales.size() + 1, stored.size());
      for (std::size_t i = 0; i < scales.size(); ++i)
        pending_scales_.try_emplace(stored[i + 1].name, scales[i].begin(), scales[i].end());
    }
    checksums_.emplace(tensor.name, checksum.text());
  }

  WeightSource& source_;
  const StorageFormats& formats_;
  const std::function<bool()>& cancelled_;
  std::map<std::string, Origin, std::less<>> origins_;
  CheckpointWriter writer_;
  Progress progress_;
  EncodedMatrix encoded_;
  std::map<std::string, std::vector<std::byte>> pending_scales_;
  Checksums checksums_;
  std::int64_t written_bytes_ = 0;
};

}  // namespace

void for_each_piece(std::span<const std::byte> bytes,
                    const std::function<void(std::span<const std::byte>)>& use) {
  constexpr std::size_t kPieceBytes = 64 << 20;  // a multiple of a page
  for (std::size_t begin = 0; begin < bytes.size(); begin += kPieceBytes)
    use(bytes.subspan(begin, std::min(kPieceBytes, bytes.size() - begin)));
}

Checksums write_weights(const StreamPlan& plan, WeightSource& source) {
  return Stream(plan, source).run(plan.other_files);
}

void verify_weights(const std::filesystem::path& folder, const ModelConfig& config,
                    const Checksums& checksums, const std::function<bool()>& cancelled) {
  const Checkpoint checkpoint(folder);
  static_cast<void>(load_config(folder));
  check_tensors(config, checkpoint);
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    const auto written = checksums.find(tensor.name);
    Checksum found;
    for_each_piece(tensor.bytes, [&](std::span<const std::byte> piece) {
      check_not_cancelled(cancelled);
      found.add(piece);
      end_reading(piece);
    });
    if (written == checksums.end() || written->second != found.text()) {
      fail("tensor \"{}\" in {}: reads back other bytes than were written; is the disk sound?", tensor.name,
           tensor.file);
    }
  }
}

}  // namespace baleen
