#include "server/page.h"

// The assembler copies the files into the object as they are; C++ arrays of their bytes would take the
// compiler seconds.
__asm__(
    ".section .rodata\n"
    ".global baleen_page_begin\n"
    ".global baleen_page_end\n"
    ".global baleen_notices_begin\n"
    ".global baleen_notices_end\n"
    "baleen_page_begin:\n"
    ".incbin \"" BALEEN_PAGE_FILE
    "\"\n"
    "baleen_page_end:\n"
    ".byte 0\n"
    "baleen_notices_begin:\n"
    ".incbin \"" BALEEN_PROGRAM_NOTICES_FILE
    "\"\n"
    ".byte 10\n"
    ".incbin \"" BALEEN_PAGE_NOTICES_FILE
    "\"\n"
    "baleen_notices_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char baleen_page_begin;
extern const char baleen_page_end;
extern const char baleen_notices_begin;
extern const char baleen_notices_end;
}

namespace baleen {
namespace {

std::string_view between(const char& begin, const char& end) {
  return {&begin, static_cast<std::size_t>(&end - &begin)};
}

}  // namespace

std::string_view page_html() { return between(baleen_page_begin, baleen_page_end); }
std::string_view third_party_notices() { return between(baleen_notices_begin, baleen_notices_end); }

}  // namespace baleen
