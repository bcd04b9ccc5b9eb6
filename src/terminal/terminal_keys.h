/// Characters typed or pasted at a terminal in raw mode.
#pragma once

#include <cstddef>
#include <string>

namespace baleen {

/// Decodes UTF-8 and bracketed paste ("ESC [200~ text ESC [201~", as terminals send it once they are asked
/// to): control characters in a paste are text and never edit or submit, except its line ends, and a paste's
/// last line end is dropped.
class TerminalKeys {
 public:
  /// The descriptor must outlive this.
  explicit TerminalKeys(int descriptor) : descriptor_(descriptor) {}

  enum class Status { kKey, kEnd, kError, kTooLong };

  /// Waits for the next character. kTooLong: a paste of more than `kMaxPastedBytes` was read to its end and
  /// dropped.
  Status next(wchar_t& key);

  /// Whether the character that `next` returned last is followed by others of the same paste.
  [[nodiscard]] bool paste_goes_on() const { return num_pasted_ > 0; }

  /// Forgets what of a paste is left.
  void drop_paste();

  static constexpr std::size_t kMaxPastedBytes = std::size_t{1} << 20;

 private:
  enum class Wait { kIndefinitely, kShortly };

  /// The next byte of the terminal; -1 at its end or an error, and where nothing came shortly.
  int byte(Wait wait);
  /// After ESC: reads a paste, or puts what else came into `ready_`. False: the paste was too long.
  bool read_escape();
  bool read_paste();

  int descriptor_;
  std::string ready_;           ///< bytes that come before those of the terminal
  std::size_t position_ = 0;    ///< where reading stands in ready_
  std::size_t num_pasted_ = 0;  ///< bytes of ready_, from position_ on, that are pasted
};

}  // namespace baleen
