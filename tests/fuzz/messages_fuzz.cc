#include "request_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baleen::check_request(baleen::parse_messages, data, size);
  return 0;
}
