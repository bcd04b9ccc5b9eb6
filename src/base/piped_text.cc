#include "base/piped_text.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <istream>

#include "base/error.h"
#include "base/number.h"

namespace baleen {
namespace {

constexpr std::size_t kBlockBytes = 64 << 10;
constexpr int kForever = -1;
/// For the program that writes into a named pipe to open it.
constexpr int kWriterMilliseconds = 10'000;

[[noreturn]] void too_long(const std::string& name, std::size_t limit_bytes) {
  fail("{}: more than {} bytes; shorten it", name, grouped(static_cast<std::uint64_t>(limit_bytes)));
}

/// False where nothing happens in this time: no byte, no end.
bool wait_for_bytes(int descriptor, int milliseconds) {
  pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, milliseconds) != 0;
}

/// At least one byte; 0 at the end.
std::size_t read_some(int descriptor, std::span<char> bytes, const std::string& name) {
  while (true) {
    const ssize_t got = ::read(descriptor, bytes.data(), bytes.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EAGAIN) {  // a writer is there, its bytes are not
      wait_for_bytes(descriptor, kForever);
    } else if (errno != EINTR) {
      fail("{}: cannot be read: {}", name, std::strerror(errno));
    }
  }
}

/// All that `read(bytes)` gives until it gives nothing.
template <class Read>
std::string read_all(const Read& read, const std::string& name, std::size_t limit_bytes) {
  std::string text;
  while (true) {
    const std::size_t size = text.size();
    text.resize(size + kBlockBytes);
    const std::size_t got = read(std::span<char>(text.data() + size, kBlockBytes));
    text.resize(size + got);
    if (got == 0) return text;
    if (text.size() > limit_bytes) too_long(name, limit_bytes);
  }
}

}  // namespace

ByteStream::ByteStream(const std::filesystem::path& path) : path_(path) {
  struct stat info {};
  // Looked at before it is opened: opening a device may already act on it, opening a pipe waits for its
  // writer.
  if (::stat(path.c_str(), &info) != 0)
    fail("{}: cannot open for reading: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
    fail("{}: neither a regular file nor a pipe", path.string());
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor_ < 0) fail("{}: cannot open for reading: {}", path.string(), std::strerror(errno));
  awaits_writer_ = S_ISFIFO(info.st_mode);
  size_ = awaits_writer_ ? 0 : static_cast<std::int64_t>(info.st_size);
}

ByteStream::~ByteStream() { ::close(descriptor_); }

std::size_t ByteStream::read(std::span<char> bytes) {
  std::size_t got = read_some(descriptor_, bytes, path_.string());
  if (got == 0 && awaits_writer_) {
    // The end at once: a pipe that no program has opened for writing yet, or one that was closed without a
    // byte.
    if (!wait_for_bytes(descriptor_, kWriterMilliseconds))
      fail("{}: a pipe that no program writes to; waited {} s", path_.string(), kWriterMilliseconds / 1000);
    got = read_some(descriptor_, bytes, path_.string());
  }
  awaits_writer_ = false;
  return got;
}

std::string read_file_or_pipe(const std::filesystem::path& path, std::size_t limit_bytes) {
  ByteStream stream(path);
  return read_all([&stream](std::span<char> bytes) { return stream.read(bytes); }, path.string(),
                  limit_bytes);
}

std::string read_standard_input(std::size_t limit_bytes) {
  const std::string name = "standard input";
  return read_all([&name](std::span<char> bytes) { return read_some(STDIN_FILENO, bytes, name); }, name,
                  limit_bytes);
}

bool read_line(std::istream& in, std::string& line, const char* name, std::size_t limit_bytes) {
  line.clear();
  std::streambuf& buffer = *in.rdbuf();
  constexpr auto kEnd = std::istream::traits_type::eof();
  for (auto c = buffer.sbumpc(); c != kEnd; c = buffer.sbumpc()) {
    if (c == '\n') return true;
    if (line.size() == limit_bytes) too_long(name, limit_bytes);
    line += static_cast<char>(c);
  }
  in.setstate(std::ios::eofbit);
  return !line.empty();
}

}  // namespace baleen
