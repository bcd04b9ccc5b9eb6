/// The log of a run: one JSON object a line, appended as the run goes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/checksum.h"

namespace baleen {

/// How far a log was written.
struct LogMark {
  std::int64_t bytes = 0;
  std::string checksum;  ///< digest of these bytes
};

class TrainingLog {
 public:
  /// Opens `path` for appending. Lines of steps beyond `step`, which a resumed run does again, are removed,
  /// and so are a last line that was cut short and lines that are not of a log; the latter are said. So is a
  /// log that is not the one of `mark`, which a checkpoint of `step` has: nothing is computed from it. Throws
  /// `Error` when the file cannot be written.
  TrainingLog(const std::filesystem::path& path, std::int64_t step, const std::optional<LogMark>& mark = {});
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;
  ~TrainingLog();

  /// A line; `line` has a "step". Throws `Error` when the disk is full.
  void write(const nlohmann::ordered_json& line);

  /// Of all lines so far.
  [[nodiscard]] LogMark mark() const { return {bytes_, written_.text()}; }

 private:
  void count(std::string_view text);

  Checksum written_;
  std::int64_t bytes_ = 0;
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace baleen
