#include "disk_tier/cache_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "disk_tier/page_file.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockName = "lock";
constexpr std::string_view kModelsName = "models";
constexpr std::string_view kPageSuffix = ".page";
constexpr std::string_view kNewSuffix = ".new";
constexpr std::size_t kSubfolderDigits = 2;
constexpr mode_t kOwnerOnlyFile = 0600, kOwnerOnlyFolder = 0700;
constexpr std::int64_t kNanoseconds = 1'000'000'000;

/// Closes a descriptor at the end of a block.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool valid() const { return value_ >= 0; }

 private:
  int value_;
};

std::string reason() { return std::strerror(errno); }

std::string subfolder_name(const PageKey& key) { return to_hex(key).substr(0, kSubfolderDigits); }

/// The key in a file's name without `suffix`, if that is in the folder where such a file belongs.
std::optional<PageKey> key_in_name(const fs::path& path, std::string_view suffix) {
  const std::string name = path.filename().string();
  if (!name.ends_with(suffix)) return std::nullopt;
  const std::optional<PageKey> key =
      key_from_hex(std::string_view(name).substr(0, name.size() - suffix.size()));
  if (!key || path.parent_path().filename() != subfolder_name(*key)) return std::nullopt;
  return key;
}

bool is_subfolder_name(const std::string& name) {
  return name.size() == kSubfolderDigits && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

timespec to_timespec(std::int64_t ns) {
  return {.tv_sec = static_cast<time_t>(ns / kNanoseconds), .tv_nsec = static_cast<long>(ns % kNanoseconds)};
}

/// -1 where it cannot be opened. Never waits, whatever lies under the name; the caller looks whether it is a
/// file.
int open_page(const fs::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
}

Result<std::monostate> write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("{}", reason());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return std::monostate{};
}

/// As many bytes as there are, at most `bytes.size()`.
Result<std::size_t> read_all(int descriptor, std::span<std::byte> bytes) {
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(descriptor, bytes.data() + size, bytes.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure("{}", reason());
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  return size;
}

/// What an open file claims to be, when that suits its name and length.
Result<PageFileClaim> inspect(int descriptor, const PageKey& key, std::int64_t file_bytes) {
  std::array<std::byte, kPageFileHeaderBytes> beginning{};
  const Result<std::size_t> size = read_all(descriptor, beginning);
  if (!size) return failure("it cannot be read: {}", size.error());
  const Result<PageFileClaim> claim =
      read_page_file_header(std::span(beginning).first(size.value()), file_bytes);
  if (claim && claim.value().key != key) return failure("it holds the page {}", to_hex(claim.value().key));
  return claim;
}

}  // namespace

CacheFolder::CacheFolder(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  const bool created = fs::create_directories(folder_, error);
  if (error || !fs::is_directory(folder_, error)) {
    fail("{}: cannot be made a folder for the cache: {}; name a folder that you may write to",
         folder_.string(), error ? error.message() : "it is a file");
  }
  if (created) ::chmod(folder_.c_str(), kOwnerOnlyFolder);
  const fs::path lock = folder_ / kLockName;
  lock_descriptor_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnlyFile);
  if (lock_descriptor_ < 0) {
    fail("{}: cannot be opened: {}; the cache needs a folder that you may write to", lock.string(), reason());
  }
  if (::flock(lock_descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const std::string why = errno == EWOULDBLOCK ? "another process uses this cache folder" : reason();
    ::close(lock_descriptor_);
    fail("{}: {}; give every server a folder of its own", lock.string(), why);
  }
}

fs::path CacheFolder::models() const {
  const fs::path path = folder_ / kModelsName;
  ::mkdir(path.c_str(), kOwnerOnlyFolder);
  return path;
}

CacheFolder::~CacheFolder() { ::close(lock_descriptor_); }

FolderScan CacheFolder::scan(const PageKey& root, const Warn& warn) {
  FolderScan scan;
  std::vector<fs::path> foreign;
  std::int64_t num_of_other_models = 0;

  const auto visit_page_file = [&](const fs::path& path, const PageKey& key) {
    const Descriptor file(open_page(path));
    struct stat info {};
    if (!file.valid() || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
      foreign.push_back(path);
      return;
    }
    const Result<PageFileClaim> claim = inspect(file.get(), key, info.st_size);
    if (!claim) {
      ++scan.num_rejected;
      warn(fmt::format("{}: removed from the cache: {}", path.string(), claim.error()));
      ::unlink(path.c_str());
      return;
    }
    if (claim.value().root != root) ++num_of_other_models;
    scan.files.push_back({.key = key,
                          .bytes = info.st_size,
                          .has_window = claim.value().has_window,
                          .last_use_ns = info.st_mtim.tv_sec * kNanoseconds + info.st_mtim.tv_nsec});
  };
  const auto visit = [&](const fs::directory_entry& entry) {
    std::error_code error;
    const fs::path& path = entry.path();
    if (entry.symlink_status(error).type() != fs::file_type::regular) {
      foreign.push_back(path);
    } else if (key_in_name(path, std::string(kPageSuffix) + std::string(kNewSuffix))) {
      ::unlink(path.c_str());
    } else if (const std::optional<PageKey> key = key_in_name(path, kPageSuffix)) {
      visit_page_file(path, *key);
    } else {
      foreign.push_back(path);
    }
  };

  // Reading a folder ends early when it fails: what was not seen is not there.
  std::error_code error;
  for (fs::directory_iterator at(folder_, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == kLockName || name == kModelsName) continue;
    std::error_code inner;
    if (!is_subfolder_name(name) || at->symlink_status(inner).type() != fs::file_type::directory) {
      foreign.push_back(at->path());
      continue;
    }
    for (fs::directory_iterator file(at->path(), inner); !inner && file != fs::directory_iterator();
         file.increment(inner)) {
      visit(*file);
    }
  }

  if (!foreign.empty()) {
    warn(fmt::format("{}: {} of its entries are not the cache's, such as {}; they are left alone",
                     folder_.string(), foreign.size(), foreign.front().string()));
  }
  if (num_of_other_models > 0) {
    warn(
        fmt::format("{}: {} of its {} pages are of other models or layouts; they count against the budget "
                    "until they are the oldest",
                    folder_.string(), num_of_other_models, scan.files.size()));
  }
  std::sort(scan.files.begin(), scan.files.end(),
            [](const FoundFile& a, const FoundFile& b) { return a.last_use_ns < b.last_use_ns; });
  return scan;
}

Result<std::vector<std::byte>> CacheFolder::read(const PageKey& key, std::int64_t expected_bytes) const {
  const Descriptor file(open_page(path_of(key)));
  struct stat info {};
  if (!file.valid() || ::fstat(file.get(), &info) != 0) return failure("it cannot be opened: {}", reason());
  if (!S_ISREG(info.st_mode)) return failure("it is no regular file");
  if (info.st_size != expected_bytes)
    return failure("it has {} bytes, {} were written", info.st_size, expected_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(expected_bytes));
  const Result<std::size_t> size = read_all(file.get(), bytes);
  if (!size) return failure("it cannot be read: {}", size.error());
  bytes.resize(size.value());
  return bytes;
}

Result<std::monostate> CacheFolder::prepare(const PageKey& key, std::span<const std::byte> bytes,
                                            std::int64_t last_use_ns) {
  const fs::path path = path_of(key).string() + std::string(kNewSuffix);
  ::mkdir(path.parent_path().c_str(), kOwnerOnlyFolder);  // there already, or `open` will say why not
  // A file of its own: what is under this name, a pipe perhaps, which would wait for a reader, goes.
  ::unlink(path.c_str());
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kOwnerOnlyFile));
  if (!file.valid()) return failure("{}: cannot be written: {}", path.string(), reason());
  const std::array<timespec, 2> times = {to_timespec(last_use_ns), to_timespec(last_use_ns)};
  Result<std::monostate> written = write_all(file.get(), bytes);
  if (written && (::futimens(file.get(), times.data()) != 0 || ::fsync(file.get()) != 0)) {
    written = failure("{}", reason());
  }
  if (written) return written;
  ::unlink(path.c_str());
  return failure("{}: cannot be written: {}", path.string(), written.error());
}

Result<std::monostate> CacheFolder::publish(const PageKey& key) {
  const fs::path path = path_of(key);
  const fs::path prepared = path.string() + std::string(kNewSuffix);
  if (::rename(prepared.c_str(), path.c_str()) == 0) return std::monostate{};
  const std::string why = reason();
  ::unlink(prepared.c_str());
  return failure("{}: cannot be put in place: {}", path.string(), why);
}

// Only the order after a restart suffers when this fails.
void CacheFolder::mark_used(const PageKey& key, std::int64_t last_use_ns) const {
  const std::array<timespec, 2> times = {to_timespec(last_use_ns), to_timespec(last_use_ns)};
  ::utimensat(AT_FDCWD, path_of(key).c_str(), times.data(), AT_SYMLINK_NOFOLLOW);
}

void CacheFolder::remove(const PageKey& key) const { ::unlink(path_of(key).c_str()); }

fs::path CacheFolder::path_of(const PageKey& key) const {
  return folder_ / subfolder_name(key) / (to_hex(key) + std::string(kPageSuffix));
}

}  // namespace baleen
