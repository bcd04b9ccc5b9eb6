#include "checkpoint/kept_digests.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <sstream>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"

namespace baleen {
namespace {

constexpr std::string_view kTitle = "baleen digests 1";
constexpr std::size_t kMaxBytes = std::size_t{1} << 24;
constexpr std::size_t kDigits = 32;

bool is_digest(std::string_view text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::filesystem::path fallback_path(const std::filesystem::path& folder,
                                    const std::filesystem::path& fallback) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::weakly_canonical(folder, error);
  const std::string name = (error ? folder : whole).string();
  return fallback / fmt::format("{:016x}", XXH3_64bits(name.data(), name.size()));
}

}  // namespace

KeptDigests::KeptDigests(std::filesystem::path folder, const std::filesystem::path& fallback)
    : beside_(folder / ".baleen-digests"),
      fallback_(fallback.empty() ? std::filesystem::path() : fallback_path(folder, fallback)) {
  if (!fallback_.empty()) read(fallback_);
  read(beside_);
}

void KeptDigests::read(const std::filesystem::path& path) {
  std::string text;
  try {
    if (!std::filesystem::is_regular_file(path)) return;
    text = read_text_file(path, kMaxBytes);
  } catch (const std::exception&) {
    return;
  }
  // The last line is the digest of those before it.
  if (text.size() < kDigits + 1 || text.back() != '\n') return;
  const std::size_t body = text.size() - kDigits - 1;
  if (text.substr(body, kDigits) != checksum_of(std::string_view(text).substr(0, body))) return;
  std::istringstream lines(text.substr(0, body));
  std::string line;
  if (!std::getline(lines, line) || line != kTitle) return;
  while (std::getline(lines, line)) {
    std::istringstream fields(line);
    Entry entry;
    std::string name;
    fields >> entry.digest >> entry.version.size >> entry.version.modified_ns >> entry.version.changed_ns >>
        entry.version.inode;
    fields.get();
    if (!fields || !std::getline(fields, name) || !is_digest(entry.digest)) return;
    entries_.insert_or_assign(std::move(name), std::move(entry));
  }
}

std::string KeptDigests::find(const std::string& name, const FileVersion& version) const {
  const auto found = entries_.find(name);
  return found != entries_.end() && found->second.version == version ? found->second.digest : "";
}

void KeptDigests::add(const std::string& name, const FileVersion& version, std::string digest) {
  if (name.find('\n') != std::string::npos) return;  // a line could not hold it
  entries_.insert_or_assign(name, Entry{version, std::move(digest)});
}

std::filesystem::path KeptDigests::save() const {
  std::string text = fmt::format("{}\n", kTitle);
  for (const auto& [name, entry] : entries_) {
    const FileVersion& version = entry.version;
    text += fmt::format("{} {} {} {} {} {}\n", entry.digest, version.size, version.modified_ns,
                        version.changed_ns, version.inode, name);
  }
  text += checksum_of(text) + "\n";
  for (const std::filesystem::path& path : {beside_, fallback_}) {
    if (path.empty()) continue;
    try {
      AtomicFileWriter file(path);
      file.write(text);
      file.commit();
      return path;
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the other folder, or none
    }
  }
  return {};
}

}  // namespace baleen
