#include "trainer/run/training_log.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "log/log.h"

namespace baleen {
namespace {

struct KeptLines {
  std::string text;
  std::int64_t num_damaged = 0;  ///< left out
};

/// The whole lines of a log up to `step`.
KeptLines lines_until(const std::string& text, std::int64_t step) {
  KeptLines kept;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end + 1 - begin);
    begin = end + 1;
    const Result<nlohmann::ordered_json> parsed = parse_ordered_json(line);
    const bool is_line = parsed.ok() && parsed.value().is_object() && parsed.value().contains("step") &&
                         parsed.value()["step"].is_number_integer();
    if (!is_line) {
      ++kept.num_damaged;
    } else if (parsed.value()["step"].get<std::int64_t>() <= step) {
      kept.text += line;
    }
  }
  return kept;
}

}  // namespace

TrainingLog::TrainingLog(const std::filesystem::path& path, std::int64_t step,
                         const std::optional<LogMark>& mark)
    : path_(path) {
  if (std::filesystem::exists(path)) {
    const KeptLines kept = lines_until(read_text_file(path), step);
    if (kept.num_damaged > 0) log_line("{}: {} damaged lines are left out", path.string(), kept.num_damaged);
    AtomicFileWriter writer(path);
    writer.write(kept.text);
    writer.commit();
    count(kept.text);
  }
  if (mark && (mark->bytes != bytes_ || mark->checksum != written_.text())) {
    log_line(
        "{}: not the log that the checkpoint of step {} was written beside; what it says of earlier steps "
        "may be wrong or missing",
        path.string(), step);
  }
  file_ = std::fopen(path.c_str(), "ae");
  if (file_ == nullptr) fail("{}: cannot be written: {}", path.string(), std::strerror(errno));
}

TrainingLog::~TrainingLog() { std::fclose(file_); }

void TrainingLog::count(std::string_view text) {
  written_.add(text);
  bytes_ += static_cast<std::int64_t>(text.size());
}

void TrainingLog::write(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
    fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
  count(text);
}

}  // namespace baleen
