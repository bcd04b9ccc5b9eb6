#include "engram/engram_store.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/map_advice.h"

namespace baleen {
namespace {

std::int64_t row_array_bytes(const EngramConfig& config, std::int64_t max_rows) {
  return max_rows * std::ssize(config.layer_ids) * config.num_hashes() * std::int64_t{sizeof(std::int64_t)};
}

/// Of a step in which no two tokens read the same row.
std::int64_t record_bytes(const EngramConfig& config, EngramPlace place, std::int64_t max_rows) {
  if (place != EngramPlace::kDisk) return 0;
  return max_rows * std::ssize(config.layer_ids) * config.num_hashes() *
         EngramRecord(config.head_dim).size_bytes;
}

std::int64_t* as_rows(const Buffer& buffer) { return reinterpret_cast<std::int64_t*>(buffer.data()); }

}  // namespace

std::int64_t EngramStore::device_bytes(const EngramConfig& config, EngramPlace place, std::int64_t max_rows) {
  return row_array_bytes(config, max_rows) + record_bytes(config, place, max_rows);
}

std::int64_t EngramStore::host_bytes(const EngramConfig& config, EngramPlace place, std::int64_t max_rows) {
  return device_bytes(config, place, max_rows);
}

EngramStore::EngramStore(EngramHashes hashes, std::shared_ptr<const EngramTables> tables,
                         std::int64_t max_rows, Memory& device, Memory& host)
    : hashes_(std::move(hashes)),
      tables_(std::move(tables)),
      max_rows_(max_rows),
      width_(tables_->stored().front().width()),
      record_(width_) {
  BALEEN_CHECK_EQ(hashes_.num_tables(), std::ssize(tables_->stored()));
  const std::int64_t num_entries = max_rows * hashes_.num_tables() * hashes_.num_hashes();
  rows_on_device_ = Buffer(num_entries * std::int64_t{sizeof(std::int64_t)}, device);
  rows_ = Buffer(num_entries * std::int64_t{sizeof(std::int64_t)}, host);
  if (place() != EngramPlace::kDisk) return;
  records_on_device_ = Buffer(num_entries * record_.size_bytes, device);
  records_ = Buffer(num_entries * record_.size_bytes, host);
  reader_ = std::make_unique<EngramReader>(tables_->stored());
}

EngramStore::~EngramStore() = default;

std::span<const TokenId> EngramStore::last_before(const EngramRun& run) const {
  return run.before.last(std::min(run.before.size(), num_before()));
}

EngramStore::KeptRun EngramStore::kept(const EngramRun& run) const {
  const std::span<const TokenId> before = last_before(run);
  return {{before.begin(), before.end()}, {run.ids.begin(), run.ids.end()}};
}

std::pair<const EngramStore::AheadRun*, std::size_t> EngramStore::longest_ahead(const EngramRun& run) const {
  std::pair<const AheadRun*, std::size_t> best{nullptr, 0};
  for (const AheadRun& one : ahead_) {
    if (!std::ranges::equal(one.tokens.before, last_before(run))) continue;
    const auto differs = std::ranges::mismatch(one.tokens.ids, run.ids);
    const auto count = static_cast<std::size_t>(differs.in1 - one.tokens.ids.begin());
    if (count > best.second) best = {&one, count};
  }
  return best;
}

std::optional<std::vector<std::int64_t>> EngramStore::find(std::span<const EngramRun> runs) {
  std::int64_t num_tokens = 0;
  for (const EngramRun& run : runs) num_tokens += std::ssize(run.ids);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(num_tokens) * entries_of_token());
  hashes_.find(runs, {rows.data(), {num_tokens, hashes_.num_tables(), hashes_.num_hashes()}});
  if (place() == EngramPlace::kMapped) advise_map(rows);
  if (reader_ && !find_places(rows)) return std::nullopt;
  return rows;
}

bool EngramStore::find_places(std::span<std::int64_t> rows) {
  const auto of_table = static_cast<std::size_t>(hashes_.num_hashes());
  const auto num_tables = static_cast<std::size_t>(hashes_.num_tables());
  const auto id_of = [&](std::size_t i) {
    return EngramRowId{static_cast<std::int64_t>(i / of_table % num_tables), rows[i]};
  };
  std::vector<EngramRowId> wanted, missing;
  for (std::size_t i = 0; i < rows.size(); ++i) wanted.push_back(id_of(i));
  std::ranges::sort(wanted);
  wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
  auto known = requested_.begin();
  std::ranges::copy_if(wanted, std::back_inserter(missing), [&](const EngramRowId& id) {
    while (known != requested_.end() && known->first < id) ++known;
    return known == requested_.end() || known->first != id;
  });
  const std::int64_t num_requested = std::ssize(requested_);
  if ((num_requested + std::ssize(missing)) * record_.size_bytes > records_.size_bytes()) return false;
  reader_->start(missing, records_.data() + num_requested * record_.size_bytes);
  for (const EngramRowId& id : missing) requested_.emplace_back(id, std::ssize(requested_));
  std::ranges::inplace_merge(requested_, requested_.begin() + num_requested, {},
                             &decltype(requested_)::value_type::first);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] =
        std::ranges::lower_bound(requested_, id_of(i), {}, &decltype(requested_)::value_type::first)->second;
  }
  return true;
}

void EngramStore::prefetch(std::span<const EngramRun> runs) {
  for (const EngramRun& run : runs) {
    const std::size_t num_entries = run.ids.size() * entries_of_token();
    if (run.ids.empty() || longest_ahead(run).second == run.ids.size() ||
        (ahead_rows_.size() + num_entries) * sizeof(std::int64_t) >
            static_cast<std::size_t>(rows_.size_bytes()))
      continue;
    const auto rows = find({&run, 1});
    if (!rows) continue;
    ahead_.push_back({kept(run), ahead_rows_.size()});
    ahead_rows_.insert(ahead_rows_.end(), rows->begin(), rows->end());
  }
}

void EngramStore::prefetch_behind_step(std::span<const EngramRun> runs) {
  behind_step_.clear();
  for (const EngramRun& run : runs) behind_step_.push_back(kept(run));
}

void EngramStore::forget_ahead() {
  // What still comes does so to where the next rows will: what became of it does not matter any more.
  if (reader_) static_cast<void>(reader_->wait());
  ahead_.clear();
  ahead_rows_.clear();
  requested_.clear();
}

std::optional<std::string> EngramStore::bring(std::span<const EngramRun> runs) {
  const std::size_t num_requested_ahead = requested_.size();
  num_rows_ = num_tokens_ahead_ = 0;
  std::vector<EngramRun> missing;  // the tokens of each run behind those that were found ahead
  std::vector<std::pair<const AheadRun*, std::size_t>> found;
  std::deque<std::vector<TokenId>> before;
  for (const EngramRun& run : runs) {
    const auto& [ahead, count] = found.emplace_back(longest_ahead(run));
    num_rows_ += std::ssize(run.ids);
    num_tokens_ahead_ += static_cast<std::int64_t>(count);
    const std::span<const TokenId> last = last_before(run);
    std::vector<TokenId>& all = before.emplace_back(last.begin(), last.end());
    all.insert(all.end(), run.ids.begin(), run.ids.begin() + static_cast<std::ptrdiff_t>(count));
    missing.push_back({.before = all, .ids = run.ids.subspan(count)});
  }
  BALEEN_CHECK_LE(num_rows_, max_rows_);
  const auto rest = find(missing);
  if (!rest) {
    forget_ahead();
    return bring(runs);
  }
  std::int64_t* to = as_rows(rows_);
  auto from = rest->begin();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto [ahead, count] = found[i];
    if (ahead != nullptr)
      to = std::copy_n(ahead_rows_.begin() + static_cast<std::ptrdiff_t>(ahead->first_entry),
                       count * entries_of_token(), to);
    const auto num_entries = static_cast<std::ptrdiff_t>(missing[i].ids.size() * entries_of_token());
    to = std::copy_n(from, num_entries, to);
    from += num_entries;
  }
  if (!reader_) return std::nullopt;
  count_fetched(num_requested_ahead);
  return reader_->wait();
}

void EngramStore::count_fetched(std::size_t num_requested_ahead) {
  std::vector<bool> is_read(requested_.size());
  const std::size_t num_entries = static_cast<std::size_t>(num_rows_) * entries_of_token();
  for (const std::int64_t place : std::span(as_rows(rows_), num_entries))
    is_read[static_cast<std::size_t>(place)] = true;
  const auto ahead = is_read.begin() + static_cast<std::ptrdiff_t>(num_requested_ahead);
  num_fetched_ = std::count(is_read.begin(), is_read.end(), true);
  num_fetched_ahead_ = std::count(is_read.begin(), ahead, true);
}

void EngramStore::begin(std::span<const EngramRun> runs) {
  std::optional<std::string> why = bring(runs);
  if (why) {
    // What cannot be read may be of tokens that the step does not have.
    forget_ahead();
    why = bring(runs);
  }
  if (why) {
    forget_ahead();
    throw LostDevice(fmt::format("{}; is the disk with the checkpoint still there? Start again", *why));
  }
  if (reader_) {
    const auto num_bytes = static_cast<std::size_t>(std::ssize(requested_) * record_.size_bytes);
    records_on_device_.memory().upload(records_on_device_.data(), {records_.data(), num_bytes});
  }
  const std::size_t num_entries = static_cast<std::size_t>(num_rows_) * entries_of_token();
  rows_on_device_.memory().upload(rows_on_device_.data(), {rows_.data(), num_entries * sizeof(std::int64_t)});
  forget_ahead();
  if (place() == EngramPlace::kMapped) step_is_under_way();
}

void EngramStore::step_is_under_way() {
  for (const KeptRun& run : std::exchange(behind_step_, {})) {
    const EngramRun view = run.view();
    prefetch({&view, 1});
  }
}

EngramLookupArgs EngramStore::lookup(std::int64_t table, std::int64_t begin, std::int64_t end,
                                     const Activations<2>& z) const {
  BALEEN_CHECK(0 <= begin && begin <= end && end <= max_rows_);
  const std::int64_t of_table = hashes_.num_hashes(), of_token = hashes_.num_tables() * of_table;
  EngramLookupArgs args{.rows = {as_rows(rows_on_device_) + begin * of_token + table * of_table,
                                 {end - begin, of_table},
                                 {of_token, 1}},
                        .z = z};
  if (place() == EngramPlace::kDisk) {
    const auto* const records = reinterpret_cast<const std::uint8_t*>(records_on_device_.data());
    const std::int64_t num_records = max_rows_ * of_token;
    const std::int64_t num_scales = tables_->stored().front().scales.extent(1);
    args.codes = {records, {num_records, width_}, {record_.size_bytes, 1}};
    args.scales = {records + record_.scales_at, {num_records, num_scales}, {record_.size_bytes, 1}};
  } else {
    args.codes = tables_->rows(table).codes;
    args.scales = tables_->rows(table).scales;
  }
  return args;
}

void EngramStore::advise_map(std::span<const std::int64_t> rows) const {
  const std::int64_t of_table = hashes_.num_hashes();
  for (std::int64_t i = 0; i < std::ssize(rows); ++i) {
    const EngramTables::Rows& table = tables_->rows(i / of_table % hashes_.num_tables());
    const std::int64_t row = rows[static_cast<std::size_t>(i)];
    begin_reading(std::as_bytes(table.codes.row(row)));
    begin_reading(std::as_bytes(table.scales.row(row)));
  }
}

}  // namespace baleen
