#include "scheduler/lineup.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kv_cache/geometry.h"

namespace baleen {
namespace {

/// A first chunk's worth of room must be there at admission; more would take window pages that a prompt does
/// not need at once.
constexpr std::int64_t kFirstChunkTokens = kPageTokens;

constexpr int kAnyPriority = std::numeric_limits<int>::min();

}  // namespace

Lineup::Lineup(SequenceKeeper& sequences, ContenderOwner& owner, std::int64_t max_running)
    : sequences_(sequences),
      owner_(owner),
      max_running_(max_running),
      total_pages_(sequences.cache_use().pages.total) {}

Lineup::~Lineup() {
  for (const Contender* contender : running_) sequences_.close(*contender->sequence, /*keep=*/false);
}

void Lineup::insert_running(Contender& contender) {
  running_.insert(std::ranges::upper_bound(running_, &contender, MoreImportant()), &contender);
}

bool Lineup::erase_running(const Contender& contender) {
  if (!contender.sequence) return false;
  const auto found = std::ranges::find(running_, &contender);
  if (found != running_.end()) running_.erase(found);  // else an exception came between opening and running
  return true;
}

void Lineup::remove(Contender& contender, bool keep) {
  if (erase_running(contender)) {
    sequences_.close(*std::exchange(contender.sequence, std::nullopt), keep);
    ++num_ended_;
  }
  waiting_.erase(&contender);
}

void Lineup::refuse(Contender& contender, std::string sentence) {
  owner_.refuse(contender, std::move(sentence));
}

void Lineup::admit() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Contender& contender = **next;
    if (!may_start(contender)) {
      ++next;
      continue;
    }
    Admission admission = try_admit(contender);
    const auto someone_yields = [&] {
      return !running_.empty() && running_.back()->priority < contender.priority &&
             fits(contender, contender.priority);
    };
    while (admission == Admission::kNoRoom && someone_yields()) {
      preempt(*running_.back());
      contender.no_room_since.reset();
      admission = try_admit(contender);
    }
    if (admission == Admission::kNoRoom) return;
    next = waiting_.begin();
  }
}

bool Lineup::may_start(const Contender& contender) const {
  const auto leader_id = contender.after_prompt_of;
  // Only an earlier request can be waited for: no circles.
  if (!leader_id || *leader_id >= contender.id) return true;
  const Contender* leader = owner_.find(*leader_id);
  return leader == nullptr || leader->prompt_was_cached;
}

Lineup::Admission Lineup::try_admit(Contender& contender) {
  const bool alone = running_.empty();
  if (!alone && contender.no_room_since == num_ended_) return Admission::kNoRoom;
  contender.no_room_since = num_ended_;
  if (num_running() == max_running_) return Admission::kNoRoom;
  contender.sequence = owner_.open(contender);
  if (!contender.sequence) {
    if (!alone) return Admission::kNoRoom;
    refuse(contender, "the engine opens no sequence although none is open");
    return Admission::kEnded;
  }
  waiting_.erase(&contender);
  insert_running(contender);
  contender.matched_tokens = sequences_.length(*contender.sequence);
  const std::int64_t first_chunk =
      std::min(contender.num_tokens - contender.matched_tokens, kFirstChunkTokens);
  if (!alone && !(fits(contender, kAnyPriority) && sequences_.reserve(*contender.sequence, first_chunk))) {
    put_back(contender);
    return Admission::kNoRoom;
  }
  contender.no_room_since.reset();
  contender.most_drafts = 0;
  owner_.started(contender);
  return Admission::kRuns;
}

bool Lineup::fits(const Contender& contender, int least_priority) const {
  std::int64_t own_pages = 0, longest_match = 0;
  const auto count = [&](const Contender& other) {
    own_pages += pages_for(other.num_tokens) - other.matched_tokens / kPageTokens;
    longest_match = std::max(longest_match, other.matched_tokens);
  };
  count(contender);
  for (const Contender* other : running_) {
    if (other != &contender && other->priority >= least_priority) count(*other);
  }
  // A beginning that the cache had may be common to several: it is counted once, at its longest, which is too
  // little where they differ. Then pages run out later, and someone is preempted.
  return own_pages + longest_match / kPageTokens <= total_pages_;
}

bool Lineup::reserve(Contender& contender, std::int64_t num_tokens) {
  while (!sequences_.reserve(*contender.sequence, num_tokens)) {
    Contender* const least = running_.back();
    if (least == &contender) return false;
    preempt(*least);
  }
  return true;
}

void Lineup::preempt(Contender& contender) {
  put_back(contender);
  ++contender.preemptions;
  ++num_preemptions_;
}

void Lineup::put_back(Contender& contender) {
  erase_running(contender);
  waiting_.insert(&contender);
  contender.no_room_since = num_ended_;
  sequences_.close(*std::exchange(contender.sequence, std::nullopt), /*keep=*/true);
  owner_.stopped(contender);
}

}  // namespace baleen
