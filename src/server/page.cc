#include "server/page.h"

// The assembler copies the file into the object as it is; a C++ array of its bytes would take the compiler seconds.
__asm__(
    ".section .rodata\n"
    ".global baleen_page_begin\n"
    ".global baleen_page_end\n"
    "baleen_page_begin:\n"
    ".incbin \"" BALEEN_PAGE_FILE
    "\"\n"
    "baleen_page_end:\n"
    ".byte 0\n"
    ".text\n");

extern "C" {
extern const char baleen_page_begin;
extern const char baleen_page_end;
}

namespace baleen {

std::string_view page_html() {
  return {&baleen_page_begin, static_cast<std::size_t>(&baleen_page_end - &baleen_page_begin)};
}

}  // namespace baleen
