#include "server/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

// The assembler copies the files into the object as they are; C++ arrays of their bytes would take the
// compiler seconds.
__asm__(
    ".section .rodata\n"
    ".global baleen_page_begin\n"
    ".global baleen_page_end\n"
    ".global baleen_pdf_reader_begin\n"
    ".global baleen_pdf_reader_end\n"
    ".global baleen_notices_begin\n"
    ".global baleen_notices_end\n"
    "baleen_page_begin:\n"
    ".incbin \"" BALEEN_PAGE_FILE
    "\"\n"
    "baleen_page_end:\n"
    ".byte 0\n"
    "baleen_pdf_reader_begin:\n"
    ".incbin \"" BALEEN_PDF_READER_FILE
    "\"\n"
    "baleen_pdf_reader_end:\n"
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
extern const char baleen_pdf_reader_begin;
extern const char baleen_pdf_reader_end;
extern const char baleen_notices_begin;
extern const char baleen_notices_end;
}

namespace baleen {
namespace {

std::string_view between(const char& begin, const char& end) {
  return {&begin, static_cast<std::size_t>(&end - &begin)};
}

constexpr std::string_view kLoopback = "loopback", kNone = "none";
/// Policies have no form for [::1].
constexpr std::string_view kLoopbackSources = "http://localhost:* http://127.0.0.1:*";
/// What the built page has in its policy.
constexpr std::string_view kOwnOriginAlone = "connect-src 'self'";

/// `http://` or `https://`, a name of letters, digits, dots and dashes, and perhaps a port: nothing that
/// could end a directive of a policy.
bool is_origin(std::string_view origin) {
  const auto all = [](std::string_view text, auto&& holds) {
    return !text.empty() && std::ranges::all_of(text, holds);
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  if (origin.substr(0, scheme) != "http" && origin.substr(0, scheme) != "https") return false;
  std::string_view host = origin.substr(scheme + 3);
  if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    const std::string_view port = host.substr(colon + 1);
    if (port != "*" && !(all(port, is_digit) && port.size() <= 5)) return false;
    host = host.substr(0, colon);
  }
  return all(host, [&](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
  });
}

std::string connection_sources(std::span<const std::string> mcp_origins) {
  std::string sources(kOwnOriginAlone);
  if (mcp_origins.empty()) return fmt::format("{} {}", sources, kLoopbackSources);
  for (const std::string& origin : mcp_origins) {
    if (origin == kNone && mcp_origins.size() == 1) break;
    if (origin != kLoopback && !is_origin(origin)) {
      fail(
          "‹MCP origin› \"{}\": expected an origin as in https://tools.example:8443, \"{}\", or \"{}\" alone",
          origin, kLoopback, kNone);
    }
    sources += fmt::format(" {}", origin == kLoopback ? kLoopbackSources : std::string_view(origin));
  }
  return sources;
}

}  // namespace

ServedPage served_page(std::span<const std::string> mcp_origins) {
  const std::string sources = connection_sources(mcp_origins);
  const std::string_view built = between(baleen_page_begin, baleen_page_end);
  const std::size_t at = built.find(kOwnOriginAlone);
  BALEEN_CHECK(at != std::string_view::npos);
  ServedPage page;
  page.html = fmt::format("{}{}{}", built.substr(0, at), sources, built.substr(at + kOwnOriginAlone.size()));
  page.policy = fmt::format(
      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; worker-src 'self'; "
      "img-src data:; {}; base-uri 'none'; frame-ancestors 'none'",
      sources);
  return page;
}

std::string_view pdf_reader_script() { return between(baleen_pdf_reader_begin, baleen_pdf_reader_end); }
std::string_view third_party_notices() { return between(baleen_notices_begin, baleen_notices_end); }

}  // namespace baleen
