/// The folder of a training run: one run at a time, its checkpoints and its log.
///
///     lock                 held while a run trains here, by its first rank
///     log.jsonl            one JSON object a line
///     step-000000100/      a checkpoint after 100 steps (run_checkpoint.h)
///     model/               the trained model in the released layout, at the end of the run
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace baleen {

class RunFolder {
 public:
  /// Creates the folder where it is not there, locks it, and removes what a killed run left half written;
  /// not on a rank other than the first, which only reads. Throws `Error` when another process trains in it,
  /// or when it cannot be written.
  explicit RunFolder(const std::filesystem::path& folder, bool is_first_rank = true);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path log() const { return path_ / "log.jsonl"; }
  [[nodiscard]] std::filesystem::path model() const { return path_ / "model"; }
  [[nodiscard]] std::filesystem::path checkpoint(std::int64_t step) const;
  /// Steps of the checkpoints, oldest first; none where the folder is not there.
  [[nodiscard]] std::vector<std::int64_t> checkpoints() const;
  /// Removes all but the newest `keep`.
  void remove_old_checkpoints(std::int64_t keep) const;

 private:
  void remove_leftovers() const;

  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace baleen
