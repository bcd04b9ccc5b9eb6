#include "cuda/launch_order.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {
namespace {

template <class Done>
void take_in(Done& done, const Done& more) {
  for (std::size_t i = 0; i < done.size(); ++i) done[i] = std::max(done[i], more[i]);
}

bool any_overlap(std::span<const MemoryRange> some, std::span<const MemoryRange> others) {
  return std::ranges::any_of(some, [&](const MemoryRange& one) {
    return std::ranges::any_of(others, [&](const MemoryRange& other) { return overlap(one, other); });
  });
}

bool conflict(const Accesses& one, const Accesses& other) {
  return any_overlap(one.writes(), other.writes()) || any_overlap(one.writes(), other.reads()) ||
         any_overlap(one.reads(), other.writes());
}

}  // namespace

/// Numbers of launches go on: a place from before still means what it meant.
void LaunchOrder::forget() {
  for (Stream& stream : streams_)
    stream = {.stream = stream.stream, .num_launches = stream.num_launches, .launches = {}};
  operations_.clear();
  operations_.emplace_back().is_anything = true;
  add_launch(main_, true, NextKernel::kAtOnce);
}

Accesses& LaunchOrder::begin_operation() {
  while (!operations_.empty() && operations_.front().num_launches == 0) operations_.pop_front();
  return operations_.emplace_back().accesses;
}

std::size_t LaunchOrder::index_of(const CUstream_st* stream) {
  const auto found = std::ranges::find(streams_, stream, &Stream::stream);
  if (found != streams_.end()) return static_cast<std::size_t>(found - streams_.begin());
  BALEEN_CHECK_LT(streams_.size(), kMaxStreams);
  streams_.push_back({.stream = stream});
  return streams_.size() - 1;
}

/// Once the next launch of the stream has waited.
LaunchOrder::Done LaunchOrder::done_before_next(std::size_t index) const {
  const Stream& stream = streams_[index];
  Done done = stream.behind_wait;
  take_in(done, stream.awaited);
  done[index] = stream.num_launches;
  return done;
}

/// When the next launch of the stream begins early.
const LaunchOrder::Done& LaunchOrder::done_at_begin_of_next(std::size_t index) const {
  const Stream& stream = streams_[index];
  return stream.next == NextKernel::kBehindWait ? stream.behind_wait : stream.at_begin;
}

void LaunchOrder::add_launch(const CUstream_st* stream, bool early, NextKernel next) {
  const std::size_t index = index_of(stream);
  const Done before = done_before_next(index);
  const Done at_begin = early ? done_at_begin_of_next(index) : before;
  Stream& own = streams_[index];
  BALEEN_CHECK(!early || !own.awaits);
  Operation& operation = operations_.back();
  own.launches.push_back({own.num_launches++, &operation});
  ++operation.num_launches;
  own.at_begin = at_begin;
  own.behind_wait = before;
  own.awaited = {};
  own.awaits = false;
  own.next = next;
  drop_done();
}

LaunchOrder::Place LaunchOrder::place(const CUstream_st* stream) {
  Place place;
  place.done_ = done_before_next(index_of(stream));
  return place;
}

void LaunchOrder::wait(const CUstream_st* stream, const Place& place) {
  Stream& own = streams_[index_of(stream)];
  take_in(own.awaited, place.done_);
  own.awaits = true;
}

bool LaunchOrder::is_settled(const CUstream_st* stream, const Accesses& accesses) {
  const bool is_settled = !conflicts_with_running(index_of(stream), accesses);
  ++answers_.asked;
  answers_.settled += is_settled ? 1 : 0;
  return is_settled;
}

bool LaunchOrder::conflicts_with_running(std::size_t index, const Accesses& accesses) const {
  const Done& done = done_at_begin_of_next(index);
  for (std::size_t other = 0; other < streams_.size(); ++other) {
    for (const Launch& launch : streams_[other].launches) {
      if (launch.number < done[other]) continue;
      if (launch.operation->is_anything || conflict(accesses, launch.operation->accesses)) return true;
    }
  }
  return false;
}

bool LaunchOrder::earlier_operations_are_done(const CUstream_st* stream) {
  const std::size_t index = index_of(stream);
  const std::int64_t done = done_at_begin_of_next(index)[index];
  return std::ranges::all_of(streams_[index].launches, [&](const Launch& launch) {
    return launch.number < done || launch.operation == &operations_.back();
  });
}

/// Forgets launches that are done for every stream on which others may run. A stream all of whose launches
/// are done for the main one goes on behind an event, so behind all that is done there by then.
void LaunchOrder::drop_done() {
  const Done main = done_at_begin_of_next(0);
  Done done = main;
  for (std::size_t index = 1; index < streams_.size(); ++index) {
    const Stream& side = streams_[index];
    if (!side.awaits && side.num_launches <= main[index]) continue;
    const Done own = side.awaits ? done_before_next(index) : done_at_begin_of_next(index);
    for (std::size_t i = 0; i < done.size(); ++i) done[i] = std::min(done[i], own[i]);
  }
  for (std::size_t index = 0; index < streams_.size(); ++index) {
    std::deque<Launch>& launches = streams_[index].launches;
    while (!launches.empty() && launches.front().number < done[index]) {
      --launches.front().operation->num_launches;
      launches.pop_front();
    }
  }
}

}  // namespace baleen
