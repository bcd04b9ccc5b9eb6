#include "drafts/mtp/mtp_head.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "drafts/kept_streams.h"
#include "drafts/mtp/mtp_pass.h"
#include "ops/gather_rows/gather_rows.h"

namespace baleen {
namespace {

RowPair pair(std::int64_t from, std::int64_t to) {
  return {static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)};
}

/// The streams of all rows, a row of n d values each.
ConstActivations<2> flat(const ConstActivations<3>& streams) {
  return streams.reshaped<2>({streams.extent(0), streams.extent(1) * streams.extent(2)});
}

/// Arrays of streams that a head takes.
struct StreamRows {
  std::int64_t inputs = 0, kept = 0, drafted = 0;

  explicit StreamRows(const DraftSizes& sizes)
      : inputs(sizes.max_rows),
        kept(sizes.max_sequences * (sizes.max_draft_tokens + 1)),
        drafted(sizes.max_draft_tokens > 0 ? sizes.max_sequences : 0) {}
};

class MtpHead final : public DraftHead {
 public:
  explicit MtpHead(const DraftParts& parts)
      : parts_(parts), pass_(parts.rank, parts.weights, parts.device, parts.precision) {
    const StreamRows rows(parts_.sizes);
    inputs_ = streams(rows.inputs);
    last_ = KeptStreams(streams(rows.kept), parts_.sizes.max_draft_tokens + 1);
    if (rows.drafted > 0) drafted_ = streams(rows.drafted);
  }

  void capture(std::int64_t num_rows) override {
    parts_.forward.capture_drafts(num_rows, pass_.over(stacked(inputs_)));
  }
  std::int64_t follow(const FollowedStep& step, Activations<2> logits) override;
  void draft(std::span<const DraftRow> rows, std::int64_t depth, std::span<const TokenId> chosen,
             Activations<2> logits, std::span<float> confidence) override;
  void run_all(const RaggedBatch& batch, Activations<2> logits) override;
  void clear_due_rows(const SequenceSlice& sequence, std::int64_t end) override;
  [[nodiscard]] std::vector<std::span<std::byte>> carried(std::int32_t state_slot,
                                                          std::int64_t length) const override;

 private:
  [[nodiscard]] Activations<2> streams(std::int64_t num_rows) const {
    const std::int64_t width = parts_.rank.model().hc_dim();
    const ElementType type = parts_.sizes.type;
    return {parts_.arena.allocate<std::byte>(num_rows * width * size_of(type)), type, {num_rows, width}};
  }
  [[nodiscard]] ConstActivations<3> stacked(const ConstActivations<2>& rows) const {
    return rows.reshaped<3>({rows.extent(0), parts_.rank.model().hc_mult, parts_.rank.model().hidden_size});
  }
  /// Copies rows of streams: to[pair.to] = from[pair.from].
  void gather(ConstActivations<2> from, std::span<const RowPair> pairs, Activations<2> to) const {
    if (!pairs.empty()) parts_.device.execute<ops::GatherRows>({.from = from, .pairs = pairs, .to = to});
  }
  /// The block over the rows of `inputs_`: the streams of those that this rank keeps.
  [[nodiscard]] ConstActivations<3> run(const RaggedBatch& batch, std::span<const TokenId> chosen);
  /// Streams of all rows of the latest run.
  [[nodiscard]] ConstActivations<3> all_rows(const ConstActivations<3>& own) const;
  /// Of all `streams`.
  void write_logits(const ConstActivations<3>& streams, Activations<2> logits) const;

  DraftParts parts_;
  MtpPass pass_;
  Activations<2> inputs_;   ///< [max_rows, n d]
  KeptStreams last_;        ///< streams of the main layers, what a truncation may leave as last included
  Activations<2> drafted_;  ///< [max_sequences, n d] the block's own, of the last `draft`
};

ConstActivations<3> MtpHead::run(const RaggedBatch& batch, std::span<const TokenId> chosen) {
  return parts_.forward.run_drafts(batch, chosen, pass_.over(stacked(inputs_)));
}

ConstActivations<3> MtpHead::all_rows(const ConstActivations<3>& own) const {
  if (parts_.all_streams.empty()) return own;
  const Activations<2>& all = parts_.all_streams;
  return parts_.forward.gathered(
      own, all.reshaped<3>({all.extent(0), parts_.rank.model().hc_mult, parts_.rank.model().hidden_size}));
}

void MtpHead::write_logits(const ConstActivations<3>& streams, Activations<2> logits) const {
  const RowRange kept = parts_.layout.kept(logits.extent(0));
  pass_.logits(parts_.forward, streams.slice(kept.begin, kept.end), logits);
}

std::int64_t MtpHead::follow(const FollowedStep& step, Activations<2> logits) {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<RowPair> wanted, from_last, from_step, to_last;
  std::int64_t row = 0;
  for (std::size_t i = 0; i < step.parts.size(); ++i) {
    const SequenceSlice& slice = step.batch.slices[i];
    const bool continues = step.parts[i].continues;
    const std::int64_t first_row = row;
    if (continues) from_last.push_back(pair(last_.row(slice.state_slot, slice.start - 1), row++));
    for (std::int64_t t = 0; t < slice.num_tokens; ++t) {
      if (t + 1 < slice.num_tokens) from_step.push_back(pair(slice.first_row + t, row++));
      if (t >= slice.num_tokens - last_.rows()) {
        to_last.push_back(pair(slice.first_row + t, last_.row(slice.state_slot, slice.start + t)));
      }
    }
    if (row == first_row) continue;
    const auto end = step.batch.tokens.begin() + slice.first_row + slice.num_tokens;
    tokens.insert(tokens.end(), end - (row - first_row), end);
    slices.push_back(slice);
    slices.back().first_row = first_row;
    slices.back().num_tokens = row - first_row;
    slices.back().start = continues ? slice.start - 1 : slice.start;
    if (!step.parts[i].wants_logits) continue;
    for (std::int64_t r = first_row; r < row; ++r) wanted.push_back(pair(r, std::ssize(wanted)));
  }
  gather(last_.streams(), from_last, inputs_);
  gather(flat(step.streams), from_step, inputs_);
  gather(flat(step.streams), to_last, last_.streams());
  const bool is_awaited = parts_.layout.plan().dp > 1;
  if (tokens.empty() && !is_awaited) return 0;
  const ConstActivations<3> own = run({.tokens = tokens, .slices = slices}, step.chosen);
  const std::int64_t num_wanted = std::ssize(wanted);
  if (num_wanted == 0) return 0;
  gather(flat(all_rows(own)), wanted, parts_.wanted_streams);
  write_logits(stacked(parts_.wanted_streams.slice(0, num_wanted)), logits.slice(0, num_wanted));
  return num_wanted;
}

void MtpHead::draft(std::span<const DraftRow> rows, std::int64_t depth, std::span<const TokenId> chosen,
                    Activations<2> logits, std::span<float> /*confidence*/) {
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<RowPair> stream_rows, own_rows;
  for (const DraftRow& one : rows) {
    SequenceSlice slice = one.sequence;
    const std::int64_t last = slice.start - 1;
    slice.first_row = std::ssize(tokens);
    slice.num_tokens = 1;
    slice.start = last + depth;
    stream_rows.push_back(
        pair(depth == 0 ? last_.row(slice.state_slot, last) : slice.state_slot, slice.first_row));
    own_rows.push_back(pair(slice.first_row, slice.state_slot));
    tokens.push_back(one.token);
    slices.push_back(slice);
  }
  gather(depth == 0 ? last_.streams() : drafted_, stream_rows, inputs_);
  const ConstActivations<3> all = all_rows(run({.tokens = tokens, .slices = slices}, chosen));
  gather(flat(all), own_rows, drafted_);
  if (!rows.empty()) write_logits(all, logits);
}

void MtpHead::run_all(const RaggedBatch& batch, Activations<2> logits) {
  static_cast<void>(run(batch, {}));
  const std::int64_t num_rows = parts_.layout.kept(logits.extent(0)).size();
  pass_.logits(parts_.forward, stacked(parts_.wanted_streams.slice(0, num_rows)), logits);
}

/// Where a step ends with a page, the row of its last position waits for the next token: a sequence that gets
/// the page meanwhile must not find old bytes there.
void MtpHead::clear_due_rows(const SequenceSlice& sequence, std::int64_t end) {
  if (end % kPageTokens != 0) return;
  const std::vector<float> zeros(static_cast<std::size_t>(parts_.rank.model().head_dim));
  const PageId page = sequence.window_pages[static_cast<std::size_t>(end / kPageTokens - 1)];
  for (std::int64_t block = parts_.rank.num_layers(); block < parts_.rank.num_blocks(); ++block) {
    parts_.cache.write_row(parts_.cache.window(block), page, int{kPageTokens} - 1, zeros);
  }
}

std::vector<std::span<std::byte>> MtpHead::carried(std::int32_t state_slot, std::int64_t length) const {
  const Activations<2>& rows = last_.streams();
  const std::int64_t row_bytes = rows.stride(0) * size_of(rows.element_type());
  std::vector<std::span<std::byte>> pieces;
  for (std::int64_t p = std::max<std::int64_t>(0, length - last_.rows()); p < length; ++p) {
    pieces.emplace_back(rows.address() + last_.row(state_slot, p) * row_bytes,
                        static_cast<std::size_t>(row_bytes));
  }
  return pieces;
}

}  // namespace

const DraftHeadType kMtpHead{
    .name = "mtp",
    .title = "MTP block",
    .has_row_logits = true,
    .is_in =
        [](const ModelConfig& config) {
          return config.draft_kind == DraftKind::kMtp && config.num_draft_blocks() > 0;
        },
    .traits =
        [](const RankConfig& rank, const DraftSizes& sizes) {
          const StreamRows rows(sizes);
          DraftTraits traits;
          for (const std::int64_t count : {rows.inputs, rows.kept, rows.drafted}) {
            if (count > 0)
              traits.buffer_bytes +=
                  Arena::bytes_for<std::byte>(count * rank.model().hc_dim() * size_of(sizes.type));
          }
          return traits;
        },
    .make = [](const DraftParts& parts) -> std::unique_ptr<DraftHead> {
      return std::make_unique<MtpHead>(parts);
    }};

}  // namespace baleen
