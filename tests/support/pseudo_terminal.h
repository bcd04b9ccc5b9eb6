/// A terminal of the test's own: what is written to its master end is typed, what is read there is shown.
#pragma once

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace baleen::test {

/// Where there are no pseudo-terminals (a root without /dev/pts), `ok` is false and `why` says what is
/// missing.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short num_rows = 24, unsigned short num_columns = 80) {
    winsize size{.ws_row = num_rows, .ws_col = num_columns, .ws_xpixel = 0, .ws_ypixel = 0};
    if (::openpty(&master_, &slave_, nullptr, nullptr, &size) == 0) {
      ::fcntl(master_, F_SETFD, FD_CLOEXEC);
    } else {
      why_ = std::string("no pseudo-terminal here: openpty: ") + std::strerror(errno);
    }
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  ~PseudoTerminal() {
    close_slave();
    if (master_ >= 0) ::close(master_);
  }

  [[nodiscard]] bool ok() const { return why_.empty(); }
  [[nodiscard]] const std::string& why() const { return why_; }
  [[nodiscard]] int master() const { return master_; }
  [[nodiscard]] int slave() const { return slave_; }
  void close_slave() {
    if (slave_ >= 0) ::close(std::exchange(slave_, -1));
  }
  void resize(unsigned short num_rows, unsigned short num_columns) const {
    const winsize size{.ws_row = num_rows, .ws_col = num_columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master_, TIOCSWINSZ, &size);
  }

 private:
  int master_ = -1;
  int slave_ = -1;
  std::string why_;
};

}  // namespace baleen::test
