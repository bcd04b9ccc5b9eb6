#include "base/piped_text.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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

std::string read_all(int descriptor, const std::string& name, std::size_t limit_bytes) {
  std::string text;
  while (true) {
    const std::size_t size = text.size();
    text.resize(size + kBlockBytes);
    const ssize_t got = ::read(descriptor, text.data() + size, kBlockBytes);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {  // a writer is there, its bytes are not
      wait_for_bytes(descriptor, kForever);
      continue;
    }
    if (got < 0) fail("{}: cannot be read: {}", name, std::strerror(errno));
    if (got == 0) return text;
    if (text.size() > limit_bytes) too_long(name, limit_bytes);
  }
}

/// Closes at the end of a block.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

}  // namespace

std::string read_file_or_pipe(const std::filesystem::path& path, std::size_t limit_bytes) {
  struct stat info {};
  // Looked at before it is opened: opening a device may already act on it, opening a pipe waits for its
  // writer.
  if (::stat(path.c_str(), &info) != 0)
    fail("{}: cannot open for reading: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode))
    fail("{}: neither a regular file nor a pipe", path.string());
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
  if (file.value < 0) fail("{}: cannot open for reading: {}", path.string(), std::strerror(errno));
  std::string text = read_all(file.value, path.string(), limit_bytes);
  if (!S_ISFIFO(info.st_mode) || !text.empty()) return text;
  // The end at once: a pipe that no program has opened for writing yet, or one that was closed without a
  // byte.
  if (!wait_for_bytes(file.value, kWriterMilliseconds))
    fail("{}: a pipe that no program writes to; waited {} s", path.string(), kWriterMilliseconds / 1000);
  return read_all(file.value, path.string(), limit_bytes);
}

std::string read_standard_input(std::size_t limit_bytes) {
  return read_all(STDIN_FILENO, "standard input", limit_bytes);
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
