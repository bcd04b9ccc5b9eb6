/// The log of a run: one JSON object a line, appended as the run goes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace baleen {

class TrainingLog {
 public:
  /// Opens `path` for appending. Lines of steps beyond `step`, which a resumed run does again, are removed,
  /// and so is a last line that was cut short. Throws `Error` when the file cannot be written.
  TrainingLog(const std::filesystem::path& path, std::int64_t step);
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;
  ~TrainingLog();

  /// A line; `line` has a "step". Throws `Error` when the disk is full.
  void write(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  std::FILE* file_ = nullptr;
};

}  // namespace baleen
