#include "trainer/run/training_log.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace baleen {
namespace {

/// The whole lines of a log up to `step`.
std::string lines_until(const std::string& text, std::int64_t step) {
  std::string kept;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end + 1 - begin);
    begin = end + 1;
    const Result<nlohmann::ordered_json> parsed = parse_ordered_json(line);
    if (!parsed.ok() || !parsed.value().is_object()) continue;
    const auto found = parsed.value().find("step");
    if (found != parsed.value().end() && found->is_number_integer() && found->get<std::int64_t>() <= step)
      kept += line;
  }
  return kept;
}

}  // namespace

TrainingLog::TrainingLog(const std::filesystem::path& path, std::int64_t step) : path_(path) {
  if (std::filesystem::exists(path)) {
    AtomicFileWriter writer(path);
    writer.write(lines_until(read_text_file(path), step));
    writer.commit();
  }
  file_ = std::fopen(path.c_str(), "ae");
  if (file_ == nullptr) fail("{}: cannot be written: {}", path.string(), std::strerror(errno));
}

TrainingLog::~TrainingLog() { std::fclose(file_); }

void TrainingLog::write(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
    fail("{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

}  // namespace baleen
