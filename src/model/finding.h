/// What was found out about files, and by what.
#pragma once

#include <string>

namespace baleen {

/// A fact, and the tensor, the field of config.json or the file that says so.
template <class T>
struct Finding {
  T value{};
  std::string evidence;
};

}  // namespace baleen
