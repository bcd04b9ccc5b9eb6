#include "tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <new>

#include "base/error.h"
#include "base/quoted_text.h"
#include "tokenizer/pattern_dialect.h"

namespace baleen {
namespace {

/// Steps of a match, on top of several for each byte of the text. A step takes a few nanoseconds, so that a
/// hostile pattern gives up within a fraction of a second.
constexpr std::size_t kMatchLimit = 20'000'000;
constexpr std::size_t kMatchLimitPerByte = 4;
/// Of the interpreter, in KiB. It only runs where there is no machine code or its stack was too small.
constexpr std::uint32_t kHeapLimit = 512 * 1024;

}  // namespace

MatchScratch::MatchScratch(std::size_t text_size)
    : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
  if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
  constexpr std::size_t kLargest = std::numeric_limits<std::uint32_t>::max();
  const std::size_t limit = std::min(kMatchLimit + kMatchLimitPerByte * text_size, kLargest);
  pcre2_set_match_limit(context_, static_cast<std::uint32_t>(limit));
  pcre2_set_heap_limit(context_, kHeapLimit);
}

MatchScratch::~MatchScratch() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
}

void SplitPattern::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

SplitPattern::SplitPattern(const SplitRule& rule, std::string_view where) : source_(rule.pattern) {
  const std::string pattern = rule.literal ? rule.pattern : pcre2_from_oniguruma(rule.pattern, where);
  const std::uint32_t options = rule.literal
                                    ? PCRE2_LITERAL | PCRE2_UTF
                                    : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  int error_code = 0;
  PCRE2_SIZE error_offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options,
                            &error_code, &error_offset, nullptr));
  if (code_ == nullptr) {
    fail("{}: the pattern {} does not compile: {}", where, quoted_text(source_, kMaxShownPatternBytes),
         error_text(error_code));
  }
  std::uint32_t can_match_nothing = 0;
  pcre2_pattern_info(code_.get(), PCRE2_INFO_MATCHEMPTY, &can_match_nothing);
  if (can_match_nothing != 0) {
    fail("{}: the pattern {} can match the empty string; only patterns that consume text are supported",
         where, quoted_text(source_, kMaxShownPatternBytes));
  }
  // Where machine code is not to be had, pcre2_match interprets; results are the same.
  (void)pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

SplitPattern::Match SplitPattern::find(std::string_view text, std::size_t from, MatchScratch& scratch) const {
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, scratch.data_, scratch.context_);
  };
  int status = match(0);
  // Machine code keeps its stack on ours; the interpreter, on the heap.
  if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = match(PCRE2_NO_JIT);
  if (status == PCRE2_ERROR_NOMATCH) return {};
  if (status < 0) return {Match::Status::kGaveUp, 0, 0, status};
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(scratch.data_);
  // \K can make a match empty, or move its beginning.
  const bool forward = from <= bounds[0] && bounds[0] < bounds[1];
  if (!forward) return {Match::Status::kGaveUp, 0, 0, PCRE2_ERROR_BADOFFSET};
  return {Match::Status::kFound, bounds[0], bounds[1], 0};
}

std::string SplitPattern::error_text(int error_code) {
  std::array<PCRE2_UCHAR, 256> text{};
  if (pcre2_get_error_message(error_code, text.data(), text.size()) < 0) return "unknown error";
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace baleen
