#include "model/identity.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"

namespace baleen {
namespace {

constexpr std::size_t kSampledTensors = 512;
constexpr std::size_t kSampleBytes = 256;
constexpr std::int64_t kPieceBytes = std::int64_t{64} << 20;  ///< what one thread hashes at a time
/// Bytes of a file that are read at once: they stay in a core's cache.
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

class Hash {
 public:
  /// Without their size.
  void add_bytes(std::span<const std::byte> bytes) { checksum_.add(bytes); }
  /// With its length, so that neighbours cannot trade bytes.
  void add(std::string_view bytes) {
    const std::uint64_t size = bytes.size();
    checksum_.add(std::as_bytes(std::span(&size, 1)));
    checksum_.add(bytes);
  }
  [[nodiscard]] std::string digits() const { return checksum_.text(); }

 private:
  Checksum checksum_;
};

/// Leaves off when `stop` is requested.
void add_to(Hash& hash, const MappedFileReader& file, std::int64_t begin, std::int64_t size,
            const std::stop_token& stop) {
  std::vector<std::byte> buffer(std::min(kReadBytes, static_cast<std::size_t>(size)));
  while (size > 0 && !stop.stop_requested()) {
    const auto part = std::span(buffer).first(std::min(buffer.size(), static_cast<std::size_t>(size)));
    file.read(begin, part);
    hash.add_bytes(part);
    begin += std::ssize(part);
    size -= std::ssize(part);
  }
}

/// Runs `task` in so many threads. The first exception that ends one is thrown here.
template <class Task>
void run_in_threads(int num_threads, bool gives_way, const Task& task) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < num_threads; ++i) {
      threads.emplace_back([&] {
        if (gives_way) ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
        try {
          task();
        } catch (const std::exception&) {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

void add_config(Hash& hash, const Checkpoint& checkpoint) {
  const std::filesystem::path config = checkpoint.folder() / "config.json";
  if (std::filesystem::exists(config)) hash.add(read_text_file(config));  // tensors in memory have none
}

}  // namespace

/// A file, or a tensor in memory.
struct ContentIdentity::Source {
  std::string name;
  const MappedFile* file = nullptr;  ///< null: `bytes`
  std::span<const std::byte> bytes;
  std::int64_t size = 0;
};

std::vector<ContentIdentity::Source> ContentIdentity::sources() const {
  std::vector<Source> all;
  for (const MappedFile* file : checkpoint_.files())
    all.push_back({file->path().filename().string(), file, {}, file->version().size});
  if (!all.empty()) return all;
  for (const TensorInfo& tensor : checkpoint_.tensors())
    all.push_back({tensor.name + " " + tensor.type_text(), nullptr, tensor.bytes, std::ssize(tensor.bytes)});
  return all;
}

ContentIdentity::ContentIdentity(const Checkpoint& checkpoint, const std::filesystem::path& fallback)
    : checkpoint_(checkpoint), kept_(checkpoint.folder(), fallback) {
  for (const Source& source : sources()) {
    if (source.file == nullptr || kept_.find(source.name, source.file->version()).empty())
      bytes_to_hash_ += source.size;
  }
}

std::optional<std::string> ContentIdentity::compute(const Work& work) {
  struct Piece {
    std::size_t source = 0;
    std::int64_t begin = 0, size = 0;
    std::string digest = "";
  };
  struct Progress {
    std::string digest;
    std::unique_ptr<MappedFileReader> file;  ///< set where it is to be read
    bool may_change_unseen = false;
    std::size_t first_piece = 0, num_pieces = 0, num_left = 0;
  };
  const std::vector<Source> all = sources();
  std::vector<Progress> states(all.size());
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Source& source = all[i];
    Progress& state = states[i];
    if (source.file != nullptr) {
      state.digest = kept_.find(source.name, source.file->version());
      if (!state.digest.empty()) continue;
      state.may_change_unseen = source.file->version().may_change_unseen();
      state.file = std::make_unique<MappedFileReader>(*source.file);
      state.file->check();
    }
    state.first_piece = pieces.size();
    for (std::int64_t begin = 0; begin == 0 || begin < source.size; begin += kPieceBytes)
      pieces.push_back({i, begin, std::min(kPieceBytes, source.size - begin)});
    state.num_pieces = state.num_left = pieces.size() - state.first_piece;
  }

  std::mutex mutex;  // of `states`, `kept_` and `kept_in_`
  const auto finish = [&](std::size_t i) {
    Progress& state = states[i];
    Hash hash;
    for (std::size_t piece = 0; piece < state.num_pieces; ++piece)
      hash.add(pieces[state.first_piece + piece].digest);
    state.digest = hash.digits();
    if (state.file == nullptr) return;
    state.file->check();
    state.file.reset();
    if (state.may_change_unseen) return;
    kept_.add(all[i].name, all[i].file->version(), state.digest);
    kept_in_ = kept_.save();
  };
  std::atomic<std::size_t> next_piece = 0;
  std::atomic<bool> failed = false;
  const auto hash_pieces = [&] {
    while (!work.stop.stop_requested() && !failed) {
      const std::size_t number = next_piece++;
      if (number >= pieces.size()) return;
      Piece& piece = pieces[number];
      const Source& source = all[piece.source];
      try {
        Hash hash;
        if (source.file != nullptr) {
          add_to(hash, *states[piece.source].file, piece.begin, piece.size, work.stop);
        } else {
          hash.add_bytes(source.bytes.subspan(static_cast<std::size_t>(piece.begin),
                                              static_cast<std::size_t>(piece.size)));
        }
        if (work.stop.stop_requested()) return;
        piece.digest = hash.digits();
        hashed_bytes_ += piece.size;
        const std::lock_guard lock(mutex);
        if (--states[piece.source].num_left == 0) finish(piece.source);
        if (work.progress) work.progress(hashed_bytes_);
      } catch (...) {
        failed = true;
        throw;
      }
    }
  };
  const auto most_threads = static_cast<int>(std::min<std::size_t>(pieces.size(), 1U << 10));
  run_in_threads(std::min(std::max(work.num_threads, 1), most_threads), work.gives_way, hash_pieces);
  if (work.stop.stop_requested()) return std::nullopt;

  Hash hash;
  add_config(hash, checkpoint_);
  std::vector<std::string> digests;
  for (std::size_t i = 0; i < all.size(); ++i)
    digests.push_back(all[i].file != nullptr ? states[i].digest : all[i].name + " " + states[i].digest);
  std::ranges::sort(digests);  // whatever the files are called
  for (const std::string& digest : digests) hash.add(digest);
  return hash.digits();
}

std::string sampled_identity(const Checkpoint& checkpoint) {
  Hash hash;
  add_config(hash, checkpoint);
  const std::vector<TensorInfo>& tensors = checkpoint.tensors();
  const std::size_t every = std::max<std::size_t>(1, tensors.size() / kSampledTensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = tensors[i];
    hash.add(tensor.name);
    hash.add(tensor.type_text());
    if (i % every != 0) continue;
    const AcquiredBytes acquired(checkpoint.made().get(), tensor.bytes);
    const auto middle = tensor.bytes.subspan(tensor.bytes.size() / 2);
    const auto sample = middle.first(std::min(middle.size(), kSampleBytes));
    hash.add({reinterpret_cast<const char*>(sample.data()), sample.size()});
  }
  return hash.digits();
}

}  // namespace baleen
