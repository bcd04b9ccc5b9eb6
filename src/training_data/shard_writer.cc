#include "training_data/shard_writer.h"

#include <xxhash.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "base/check.h"

namespace baleen {
namespace {

constexpr std::size_t kBufferBytes = 4 << 20;

/// Bytes to a file, and into its checksum.
class HashedWriter {
 public:
  explicit HashedWriter(const std::filesystem::path& path) : file_(path), state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }

  template <class T>
  void write(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    buffer_.insert(buffer_.end(), bytes, bytes + sizeof(T));
    size_ += sizeof(T);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void pad_to_8() {
    while (size_ % 8 != 0) write(std::byte{});
  }
  void finish() {
    flush();
    XXH128_canonical_t checksum;
    XXH128_canonicalFromHash(&checksum, XXH3_128bits_digest(state_.get()));
    file_.write(std::as_bytes(std::span(checksum.digest)));
    file_.commit();
  }

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  void flush() {
    XXH3_128bits_update(state_.get(), buffer_.data(), buffer_.size());
    file_.write(buffer_);
    buffer_.clear();
  }

  AtomicFileWriter file_;
  std::unique_ptr<XXH3_state_t, FreeState> state_;
  std::vector<std::byte> buffer_;
  std::size_t size_ = 0;
};

/// Bits to 8-byte words, the lowest first.
class BitWriter {
 public:
  explicit BitWriter(HashedWriter& out) : out_(out) {}
  void write(bool bit) {
    word_ |= std::uint64_t{bit} << size_++;
    if (size_ == 64) flush();
  }
  void flush() {
    if (size_ > 0) out_.write(word_);
    word_ = 0;
    size_ = 0;
  }

 private:
  HashedWriter& out_;
  std::uint64_t word_ = 0;
  int size_ = 0;
};

}  // namespace

ShardTotals write_shard(const std::filesystem::path& folder, ShardHeader header, const DocumentSpool& spool,
                        std::span<const std::uint64_t> order) {
  header.totals = {};
  for (const std::uint64_t document : order) {
    const DocumentSpool::Entry& entry = spool.entries()[document];
    ++header.totals.num_documents;
    header.totals.num_tokens += entry.num_tokens;
    header.totals.num_targets += entry.num_targets;
    header.totals.num_text_bytes += entry.num_text_bytes;
  }
  header.header_hash = header_hash_of(header);
  HashedWriter out(folder / shard_file_name(header.split, header.shard));
  out.write(header);
  std::int64_t end = 0;
  for (const std::uint64_t document : order) out.write(end += spool.entries()[document].num_tokens);
  for (const std::uint64_t document : order) {
    const std::span<const std::byte> tokens = spool.tokens(spool.entries()[document]);
    for (std::size_t at = 0; at < tokens.size(); at += sizeof(TokenId)) {
      TokenId token = 0;
      std::memcpy(&token, tokens.data() + at, sizeof(token));
      if (header.token_bytes == 2) {
        out.write(static_cast<std::uint16_t>(token));
      } else {
        out.write(static_cast<std::uint32_t>(token));
      }
    }
  }
  out.pad_to_8();
  BitWriter bits(out);
  for (const std::uint64_t document : order) {
    for (const std::byte target : spool.targets(spool.entries()[document])) bits.write(target != std::byte{});
  }
  bits.flush();
  out.finish();
  return header.totals;
}

}  // namespace baleen
