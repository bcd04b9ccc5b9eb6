// Any text is a config that survives being written and read again, or an Error.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "model/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const baleen::ModelConfig config = baleen::parse_config({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (baleen::parse_config(baleen::config_text(config), "again") != config) std::abort();
  } catch (const baleen::Error&) {
  }
  return 0;
}
