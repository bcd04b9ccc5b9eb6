#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/lost_maps.h"

namespace baleen {
namespace {

std::string reason() { return std::strerror(errno); }

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

/// A new file in the folder of `target` that has no name, so that nothing is left when the program is killed;
/// below 0 where the file system has no such files.
int open_unnamed(const std::filesystem::path& target) {
  // It gets its name by way of /proc.
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : ".";
  return ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
}

/// Gives a file without a name one in the folder of `target`; empty, with errno set, when that fails.
std::filesystem::path name_unnamed(int descriptor, const std::filesystem::path& target) {
  const std::string self = "/proc/self/fd/" + std::to_string(descriptor);
  constexpr int kTries = 100;  // a program that was killed between this and renaming may have left one
  for (int i = 0; i < kTries; ++i) {
    const std::string name = target.string() + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) return name;
    if (errno != EEXIST) break;
  }
  return {};
}

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

FileVersion version_in(const struct stat& info) {
  return {.size = info.st_size,
          .modified_ns = nanoseconds(info.st_mtim),
          .changed_ns = nanoseconds(info.st_ctim),
          .inode = info.st_ino};
}

}  // namespace

bool FileVersion::may_change_unseen() const {
  timespec now{};  // the clock that file systems of this machine take their times from
  return ::clock_gettime(CLOCK_REALTIME_COARSE, &now) != 0 || changed_ns >= nanoseconds(now);
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer that may never come, and opening some devices acts
  // on them.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) fail("{}: cannot open for reading: {}", path.string(), reason());
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    fail("{}: not a regular file but {}", path.string(), kind_of(info.st_mode));
  }
  version_ = version_in(info);
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      const std::string why = reason();
      ::close(descriptor);
      fail("{}: cannot map {} bytes: {}", path.string(), size_, why);
    }
    data_ = static_cast<const std::byte*>(address);
    guard_map(data_, size_, path.c_str());
  }
  ::close(descriptor);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      version_(other.version_),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(version_, other.version_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget_map(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFileReader::MappedFileReader(const MappedFile& mapped)
    : mapped_(mapped),
      descriptor_(::open(mapped.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  if (descriptor_ < 0) fail("{}: cannot open for reading: {}", mapped.path().string(), reason());
}

MappedFileReader::~MappedFileReader() { ::close(descriptor_); }

void MappedFileReader::check() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) == 0 && version_in(info) == mapped_.version()) return;
  fail("{}: is not the file any more that was opened at first", mapped_.path().string());
}

void MappedFileReader::read(std::int64_t begin, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: cannot be read: {}", mapped_.path().string(), reason());
    if (got == 0) fail("{}: cannot be read: it ends after {} bytes", mapped_.path().string(), begin);
    into = into.subspan(static_cast<std::size_t>(got));
    begin += got;
  }
}

std::string read_text_file(const std::filesystem::path& path, std::size_t limit_bytes) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  if (bytes.size() > limit_bytes) {
    fail("{}: {} bytes, at most {} expected here", path.string(), bytes.size(), limit_bytes);
  }
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  check_maps();
  return text;
}

AtomicFileWriter::AtomicFileWriter(const std::filesystem::path& path) : path_(path), target_(path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status))
    fail("{}: is a folder; expected the name of a file to write", path.string());
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    // A pipe that no program reads is refused; otherwise opening it would wait for one.
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor_ < 0) fail("{}: cannot open for writing: {}", path.string(), reason());
    ::fcntl(descriptor_, F_SETFL, O_WRONLY);
    return;
  }
  if (std::filesystem::exists(status)) target_ = std::filesystem::canonical(path);
  std::string pattern = target_.string() + ".tmp-XXXXXX";
  descriptor_ = open_unnamed(target_);
  const bool unnamed = descriptor_ >= 0;
  if (!unnamed) descriptor_ = ::mkostemp(pattern.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    fail("{}: cannot write here: {}; does the folder exist, and may you write to it?", path.string(),
         reason());
  }
  temporary_ = unnamed ? target_ : std::filesystem::path(pattern);
  const mode_t mask = ::umask(0);  // asking is only possible by setting
  ::umask(mask);
  ::fchmod(descriptor_, 0666 & ~mask);
}

AtomicFileWriter::~AtomicFileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!temporary_.empty() && temporary_ != target_) ::unlink(temporary_.c_str());
}

void AtomicFileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("{}: writing failed: {}; nothing was left behind", path_.string(), reason());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFileWriter::write(std::string_view text) {
  write(std::as_bytes(std::span<const char>(text.data(), text.size())));
}

void AtomicFileWriter::commit() {
  check_maps();
  if (!temporary_.empty()) {
    if (::fsync(descriptor_) != 0) {
      fail("{}: writing failed: {}; nothing was left behind", path_.string(), reason());
    }
    if (temporary_ == target_) {
      const std::filesystem::path name = name_unnamed(descriptor_, target_);
      if (name.empty()) fail("{}: cannot put the finished file in place: {}", path_.string(), reason());
      temporary_ = name;
    }
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      fail("{}: cannot put the finished file in place: {}", path_.string(), reason());
    }
  }
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace baleen
