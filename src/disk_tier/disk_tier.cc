#include "disk_tier/disk_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "disk_tier/file_index.h"

namespace baleen {

// The mutex guards everything below it. Files are written and read without it; they get and lose their names
// with it, so that the index and the folder agree.
struct DiskTier::State {
  /// A page on its way to disk. Both threads read it and never change it.
  struct QueuedPage {
    PageKey key;
    std::vector<TokenId> tokens;
    StoredPage content;

    [[nodiscard]] std::int64_t bytes() const { return std::ssize(content.page) + std::ssize(content.window); }
  };

  const DiskTierOptions options;
  const Warn warn;
  const PageFileShape shape;
  const std::unique_ptr<CacheFolder> owned_folder;
  CacheFolder& folder = *owned_folder;

  mutable std::mutex mutex;
  std::condition_variable queue_changed;
  FileIndex index;
  std::deque<std::shared_ptr<const QueuedPage>> queue;
  /// The newest of each key, queued or being written.
  std::unordered_map<PageKey, std::shared_ptr<const QueuedPage>, PageKeyHash> pending;
  std::int64_t last_use_ns = 0;
  bool stopping = false;
  DiskTierStats stats;

  bool writing_fails = false;  ///< the writer's alone
  std::thread writer;

  State(DiskTierOptions tier_options, std::unique_ptr<CacheFolder> tier_folder, Warn tier_warn)
      : options(std::move(tier_options)),
        warn(std::move(tier_warn)),
        shape{.root = root_key(options.fingerprint),
              .page_bytes = options.page_bytes,
              .window_page_bytes = options.window_page_bytes},
        owned_folder(std::move(tier_folder)) {}

  /// Later than all before it, whatever the clock does: it becomes the order of use after a restart.
  std::int64_t next_use_ns() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    return last_use_ns = std::max<std::int64_t>(now_ns, last_use_ns + 1);
  }

  void take_over_files();
  void make_room(std::int64_t bytes);
  void mark_used(const PageKey& key);
  void write_queue();
  void write(const QueuedPage& page);
  Result<std::monostate> write_file(const QueuedPage& page);
  void reject(const IndexedFile& file, const std::string& why);
};

DiskTier::DiskTier(DiskTierOptions options, Warn warn)
    : DiskTier(options, std::make_unique<CacheFolder>(options.folder), std::move(warn)) {}

DiskTier::DiskTier(DiskTierOptions options, std::unique_ptr<CacheFolder> folder, Warn warn)
    : state_(std::make_unique<State>(std::move(options), std::move(folder), std::move(warn))) {
  BALEEN_CHECK(state_->options.page_bytes > 0 && state_->options.window_page_bytes > 0);
  BALEEN_CHECK(state_->options.checkpoint_pages > 0);
  state_->take_over_files();
  state_->writer = std::thread([state = state_.get()] { state->write_queue(); });
}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->queue_changed.notify_all();
  state_->writer.join();
}

DiskTier::Presence DiskTier::presence(const PageKey& key) const {
  const std::lock_guard lock(state_->mutex);
  const auto queued = state_->pending.find(key);
  const IndexedFile* file = state_->index.find(key);
  if (queued == state_->pending.end() && file == nullptr) return Presence::kAbsent;
  const bool has_window = (file != nullptr && file->has_window) ||
                          (queued != state_->pending.end() && !queued->second->content.window.empty());
  return has_window ? Presence::kPageAndWindow : Presence::kPage;
}

bool DiskTier::wants_window(std::int64_t page_idx, bool ends_prefix) const {
  switch (state_->options.window_policy) {
    case WindowPolicy::kAll:
      return true;
    case WindowPolicy::kCheckpoints:
      return ends_prefix || (page_idx + 1) % state_->options.checkpoint_pages == 0;
    case WindowPolicy::kNone:
      return false;
  }
  return false;
}

bool DiskTier::has_room(std::int64_t bytes) {
  const std::lock_guard lock(state_->mutex);
  if (state_->stats.queued_bytes + bytes <= state_->options.max_queued_bytes) return true;
  ++state_->stats.dropped_pages;
  return false;
}

bool DiskTier::store(const PageKey& key, std::span<const TokenId> tokens, std::vector<std::byte> page,
                     std::vector<std::byte> window) {
  BALEEN_CHECK_EQ(std::ssize(page), state_->options.page_bytes);
  BALEEN_CHECK(window.empty() || std::ssize(window) == state_->options.window_page_bytes);
  const Presence there = presence(key);
  if (there == Presence::kPageAndWindow || (there == Presence::kPage && window.empty())) {
    const std::lock_guard lock(state_->mutex);
    state_->mark_used(key);
    return true;
  }
  const auto queued = std::make_shared<const State::QueuedPage>(
      State::QueuedPage{.key = key,
                        .tokens = {tokens.begin(), tokens.end()},
                        .content = {.page = std::move(page), .window = std::move(window)}});
  {
    const std::lock_guard lock(state_->mutex);
    DiskTierStats& stats = state_->stats;
    if (stats.queued_bytes + queued->bytes() > state_->options.max_queued_bytes) {
      ++stats.dropped_pages;
      return false;
    }
    stats.queued_bytes += queued->bytes();
    ++stats.queued_pages;
    state_->pending[key] = queued;
    state_->queue.push_back(queued);
  }
  state_->queue_changed.notify_all();
  return true;
}

std::optional<StoredPage> DiskTier::load(const PageKey& key, std::span<const TokenId> tokens) {
  IndexedFile file;
  {
    const std::lock_guard lock(state_->mutex);
    if (const auto queued = state_->pending.find(key); queued != state_->pending.end()) {
      if (!std::ranges::equal(queued->second->tokens, tokens)) return std::nullopt;
      ++state_->stats.read_pages;
      return queued->second->content;
    }
    const IndexedFile* found = state_->index.find(key);
    if (found == nullptr) return std::nullopt;
    file = *found;
    state_->mark_used(key);
  }
  if (file.bytes > max_page_file_bytes(state_->shape)) {
    state_->reject(file, fmt::format("it has {} bytes, more than any page of this model", file.bytes));
    return std::nullopt;
  }
  const Result<std::vector<std::byte>> bytes = state_->folder.read(key, file.bytes);
  if (!bytes) {
    state_->reject(file, bytes.error());
    return std::nullopt;
  }
  Result<StoredPage> page = decode_page_file(bytes.value(), state_->shape, key, tokens);
  if (!page) {
    state_->reject(file, page.error());
    return std::nullopt;
  }
  const std::lock_guard lock(state_->mutex);
  ++state_->stats.read_pages;
  return std::move(page).value();
}

void DiskTier::flush() {
  std::unique_lock lock(state_->mutex);
  state_->queue_changed.wait(lock, [&] { return state_->pending.empty(); });
}

DiskTierStats DiskTier::stats() const {
  const std::lock_guard lock(state_->mutex);
  DiskTierStats stats = state_->stats;
  stats.num_files = state_->index.num_files();
  stats.file_bytes = state_->index.file_bytes();
  return stats;
}

const DiskTierOptions& DiskTier::options() const { return state_->options; }

void DiskTier::State::take_over_files() {
  const FolderScan scan = folder.scan(shape.root, warn);
  stats.rejected_files += scan.num_rejected;
  for (const FoundFile& file : scan.files) {
    index.add(file.key, file.bytes, file.has_window);
    last_use_ns = std::max(last_use_ns, file.last_use_ns);
  }
  make_room(0);
}

// With the mutex, or alone.
void DiskTier::State::make_room(std::int64_t bytes) {
  while (index.oldest() != nullptr && index.file_bytes() + bytes > options.budget_bytes) {
    const PageKey key = index.oldest()->key;
    folder.remove(key);
    index.remove(key);
    ++stats.evicted_files;
  }
}

// With the mutex.
void DiskTier::State::mark_used(const PageKey& key) {
  if (index.find(key) == nullptr) return;
  index.touch(key);
  folder.mark_used(key, next_use_ns());
}

void DiskTier::State::write_queue() {
  std::unique_lock lock(mutex);
  while (true) {
    queue_changed.wait(lock, [&] { return stopping || !queue.empty(); });
    if (queue.empty()) return;
    const std::shared_ptr<const QueuedPage> page = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    bool written = false;
    try {
      write(*page);
      written = true;
    } catch (const std::exception&) {
      // No memory for the page's file; the next page may fit.
    }
    lock.lock();
    if (!written) ++stats.dropped_pages;
    stats.queued_bytes -= page->bytes();
    --stats.queued_pages;
    if (const auto newest = pending.find(page->key); newest->second == page) pending.erase(newest);
    queue_changed.notify_all();
  }
}

void DiskTier::State::write(const QueuedPage& page) {
  const Result<std::monostate> written = write_file(page);
  const bool failed = !written.ok();
  if (failed) {
    const std::lock_guard lock(mutex);
    ++stats.dropped_pages;
  }
  if (failed == std::exchange(writing_fails, failed)) return;
  warn(failed ? fmt::format("{}; pages are dropped until writing works again", written.error())
              : fmt::format("{}: writing works again", options.folder.string()));
}

Result<std::monostate> DiskTier::State::write_file(const QueuedPage& page) {
  const std::vector<std::byte> bytes =
      encode_page_file(shape, page.key, page.tokens, page.content.page, page.content.window);
  std::int64_t used_ns = 0;
  {
    const std::lock_guard lock(mutex);
    if (std::ssize(bytes) > options.budget_bytes) {
      return failure("{}: a page takes {} bytes, the budget is {}", options.folder.string(), bytes.size(),
                     options.budget_bytes);
    }
    make_room(std::ssize(bytes));
    used_ns = next_use_ns();
  }
  if (Result<std::monostate> prepared = folder.prepare(page.key, bytes, used_ns); !prepared) return prepared;
  const std::lock_guard lock(mutex);
  Result<std::monostate> published = folder.publish(page.key);
  if (published) {
    index.add(page.key, std::ssize(bytes), !page.content.window.empty());
    ++stats.written_pages;
  }
  return published;
}

void DiskTier::State::reject(const IndexedFile& file, const std::string& why) {
  {
    const std::lock_guard lock(mutex);
    const IndexedFile* now = index.find(file.key);
    if (now == nullptr || now->serial != file.serial) return;  // evicted or replaced while it was read
    index.remove(file.key);
    folder.remove(file.key);
    ++stats.rejected_files;
  }
  warn(fmt::format("{}: removed from the cache: {}", folder.path_of(file.key).string(), why));
}

}  // namespace baleen
