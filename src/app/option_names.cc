#include "app/option_names.h"

#include <algorithm>

namespace baleen {
namespace {

constexpr std::string_view kOpening = "‹", kClosing = "›";

constexpr OptionName kNames[] = {
    {"API keys", "--api-key-file"},
    {"CORS origin", "--cors-origin"},
    {"Engram tables", "--engram"},
    {"GPU weight bytes", "--gpu-weights-bytes"},
    {"GPUs", "--devices"},
    {"JSON", "--json"},
    {"MCP origin", "--mcp-origin"},
    {"Zipf exponent", "--zipf"},
    {"allowed host", "--allowed-host"},
    {"balancing", "--balance-experts"},
    {"balancing bytes", "--balance-bytes"},
    {"balancing interval", "--balance-interval"},
    {"balancing window", "--balance-window"},
    {"batch tokens", "--global-batch-tokens"},
    {"bounded replay", "--bounded-replay"},
    {"chunk", "--chunk"},
    {"concurrency", "--max-concurrency"},
    {"context", "--context"},
    {"context length", "--context-length"},
    {"context parallelism", "--cp"},
    {"conversation bytes", "--conversations-bytes"},
    {"conversations", "--conversations"},
    {"copies of experts", "--redundant-experts"},
    {"data parallelism", "--dp"},
    {"decoding", "--decode"},
    {"device", "--device"},
    {"disk cache", "--cache-dir"},
    {"draft acceptance", "--mtp-acceptance"},
    {"draft depth", "--speculate"},
    {"drafts", "--num-mtp-tokens"},
    {"expert format", "--experts"},
    {"expert map", "--expert-map"},
    {"expert parallelism", "--ep"},
    {"expert transport", "--expert-transport"},
    {"first balancing", "--balance-first"},
    {"force", "--force"},
    {"guessed experts", "--guessed-experts"},
    {"host expert bytes", "--host-experts-bytes"},
    {"host experts", "--host-experts"},
    {"instance size", "--max-instance"},
    {"link rate", "--link-gbps"},
    {"logged text", "--log-text"},
    {"messages", "--messages"},
    {"micro-batch", "--micro-batch"},
    {"micro-batch overlap", "--dbo"},
    {"most drafts", "--max-mtp-tokens"},
    {"number of devices", "--num-devices"},
    {"output folder", "--out"},
    {"pipeline parallelism", "--pp"},
    {"prefill groups", "--prefill-groups"},
    {"prefix hit rate", "--prefix-cache-hit-rate"},
    {"prompt profile", "--prompt-profile"},
    {"prompt tokens", "--isl"},
    {"published acceptance", "--acceptance"},
    {"queries", "--num-queries"},
    {"query length", "--query-length"},
    {"recomputation", "--recomputation"},
    {"reply tokens", "--osl"},
    {"request rate", "--rate"},
    {"requests", "--requests"},
    {"resume", "--resume"},
    {"sequence length", "--sequence-length"},
    {"sequence parallelism", "--sequence-parallel"},
    {"sequences", "--max-sequences"},
    {"shard tokens", "--shard-tokens"},
    {"split of experts", "--moe-tp"},
    {"split of output projections", "--o-proj-tp"},
    {"split of the vocabulary", "--lmhead-tp"},
    {"stage layers", "--stage-layers"},
    {"step tokens", "--max-batch-tokens"},
    {"tensor parallelism", "--tp"},
    {"text field", "--field"},
    {"thinking time", "--think"},
    {"trace speed", "--speed"},
    {"variant", "--kernel"},
};
static_assert(std::ranges::is_sorted(kNames));

}  // namespace

std::span<const OptionName> option_names() { return kNames; }

std::string in_options(std::string_view sentence) {
  std::string text;
  while (true) {
    const std::size_t opening = sentence.find(kOpening);
    const std::size_t begin = opening == std::string_view::npos ? opening : opening + kOpening.size();
    const std::size_t closing = begin == std::string_view::npos ? begin : sentence.find(kClosing, begin);
    if (closing == std::string_view::npos) return text.append(sentence);
    const std::string_view setting = sentence.substr(begin, closing - begin);
    const auto* row = std::ranges::lower_bound(kNames, setting, {}, &OptionName::first);
    const bool is_setting = row != std::end(kNames) && row->first == setting;
    text += sentence.substr(0, opening);
    // What opens and is no setting may hold one.
    text += is_setting ? row->second : kOpening;
    sentence.remove_prefix(is_setting ? closing + kClosing.size() : begin);
  }
}

}  // namespace baleen
