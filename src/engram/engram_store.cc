#include "engram/engram_store.h"

#include <algorithm>
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
  return run.before.last(std::min(run.before.size(), static_cast<std::size_t>(hashes_.num_before())));
}

void EngramStore::note_prefetched(std::span<const EngramRun> runs) {
  prefetched_.clear();
  for (const EngramRun& run : runs) {
    const std::span<const TokenId> before = last_before(run);
    prefetched_.push_back(static_cast<TokenId>(before.size()));
    prefetched_.push_back(static_cast<TokenId>(run.ids.size()));
    prefetched_.insert(prefetched_.end(), before.begin(), before.end());
    prefetched_.insert(prefetched_.end(), run.ids.begin(), run.ids.end());
  }
}

bool EngramStore::is_prefetched(std::span<const EngramRun> runs) const {
  auto noted = prefetched_.begin();
  const auto is_next = [&](std::span<const TokenId> ids) {
    if (prefetched_.end() - noted < std::ssize(ids) || !std::equal(ids.begin(), ids.end(), noted))
      return false;
    noted += std::ssize(ids);
    return true;
  };
  for (const EngramRun& run : runs) {
    const std::span<const TokenId> before = last_before(run);
    const TokenId sizes[] = {static_cast<TokenId>(before.size()), static_cast<TokenId>(run.ids.size())};
    if (!is_next(sizes) || !is_next(before) || !is_next(run.ids)) return false;
  }
  return noted == prefetched_.end();
}

void EngramStore::prefetch(std::span<const EngramRun> runs) {
  // What comes still comes to where the next rows will: what became of it does not matter any more.
  if (reader_ && std::exchange(is_fetching_, false)) static_cast<void>(reader_->wait());
  note_prefetched(runs);
  num_rows_ = 0;
  for (const EngramRun& run : runs) num_rows_ += std::ssize(run.ids);
  BALEEN_CHECK_LE(num_rows_, max_rows_);
  hashes_.find(runs, {as_rows(rows_), {num_rows_, hashes_.num_tables(), hashes_.num_hashes()}});
  if (place() == EngramPlace::kMapped) advise_map();
  if (!reader_) return;
  collect_distinct();
  reader_->start(distinct_, records_.data());
  is_fetching_ = true;
}

void EngramStore::begin(std::span<const EngramRun> runs) {
  if (!is_prefetched(runs)) prefetch(runs);
  prefetched_.clear();
  if (reader_) {
    is_fetching_ = false;
    if (const auto why = reader_->wait())
      throw LostDevice(fmt::format("{}; is the disk with the checkpoint still there? Start again", *why));
    num_fetched_ = std::ssize(distinct_);
    records_on_device_.memory().upload(
        records_on_device_.data(),
        {records_.data(), static_cast<std::size_t>(num_fetched_ * record_.size_bytes)});
  }
  const std::int64_t num_entries = num_rows_ * hashes_.num_tables() * hashes_.num_hashes();
  rows_on_device_.memory().upload(
      rows_on_device_.data(), {rows_.data(), static_cast<std::size_t>(num_entries) * sizeof(std::int64_t)});
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

void EngramStore::collect_distinct() {
  const std::int64_t of_table = hashes_.num_hashes();
  const std::span rows(as_rows(rows_), static_cast<std::size_t>(num_rows_ * hashes_.num_tables() * of_table));
  const auto id_of = [&](std::size_t i) {
    return EngramRowId{static_cast<std::int64_t>(i) / of_table % hashes_.num_tables(), rows[i]};
  };
  distinct_.clear();
  for (std::size_t i = 0; i < rows.size(); ++i) distinct_.push_back(id_of(i));
  std::ranges::sort(distinct_);
  distinct_.erase(std::ranges::unique(distinct_).begin(), distinct_.end());
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = std::ranges::lower_bound(distinct_, id_of(i)) - distinct_.begin();
}

void EngramStore::advise_map() const {
  const std::int64_t of_table = hashes_.num_hashes();
  const std::int64_t* row = as_rows(rows_);
  for (std::int64_t i = 0; i < num_rows_ * hashes_.num_tables() * of_table; ++i, ++row) {
    const EngramTables::Rows& table = tables_->rows(i / of_table % hashes_.num_tables());
    begin_reading(std::as_bytes(table.codes.row(*row)));
    begin_reading(std::as_bytes(table.scales.row(*row)));
  }
}

}  // namespace baleen
