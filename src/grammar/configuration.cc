#include "grammar/configuration.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "grammar/compiled_grammar.h"

namespace baleen {

using Frame = Configuration::Frame;

void Stepper::begin(Configuration& to) {
  to.frames.clear();
  begin_at(grammar_.begin(), kBottom, to);
  tidy(to);
}

void Stepper::begin_at(NodeId node, std::int32_t top, Configuration& to) {
  to.readings.clear();
  to.may_end = false;
  enter(node, top, to);
}

void Stepper::step(const Configuration& from, std::uint8_t byte, Configuration& to) {
  to.frames = from.frames;
  to.readings.clear();
  to.may_end = false;
  for (const Configuration::Reading& reading : from.readings) {
    for (const ByteEdge& edge : grammar_.graph().edges_of(grammar_.node(reading.node))) {
      if (byte >= edge.first && byte <= edge.last) enter(edge.target, reading.top, to);
    }
  }
  if (to.readings.size() > 1) {
    std::ranges::sort(to.readings);
    to.readings.erase(std::unique(to.readings.begin(), to.readings.end()), to.readings.end());
  }
}

bool Stepper::advance(Configuration& at, std::string_view bytes) {
  current_ = at;
  for (const char c : bytes) {
    step(current_, static_cast<std::uint8_t>(c), next_);
    if (next_.is_dead()) return false;
    std::swap(current_, next_);
  }
  if (current_.readings.size() > kMaxReadings) current_.readings.resize(kMaxReadings);
  tidy(current_);
  at = current_;
  return true;
}

bool Stepper::permits(const Configuration& at, NodeId node, std::int32_t top) const {
  const int depth = top == kBottom ? 0 : at.frames[top].depth;
  return depth + grammar_.height(node) <= depth_limit_;
}

std::int32_t Stepper::push_frame(Configuration& to, Frame frame) {
  // Equal frames made by one byte are next to each other, so a short look back finds them.
  static constexpr std::size_t kLookBack = 16;
  frame.depth = static_cast<std::int16_t>((frame.parent == kBottom ? 0 : to.frames[frame.parent].depth) +
                                          (frame.is_return ? 1 : 0));
  const std::size_t size = to.frames.size();
  for (std::size_t i = size; i > 0 && i + kLookBack > size; --i) {
    if (to.frames[i - 1] == frame) return static_cast<std::int32_t>(i - 1);
  }
  to.frames.push_back(frame);
  return static_cast<std::int32_t>(size);
}

void Stepper::enter(NodeId first, std::int32_t first_top, Configuration& to) {
  work_.push_back({first, first_top});
  while (!work_.empty()) {
    const auto [id, top] = work_.back();
    work_.pop_back();
    if (!permits(to, id, top)) continue;
    needed_depth_ =
        std::max(needed_depth_, (top == kBottom ? 0 : to.frames[top].depth) + grammar_.height(id));
    const Node& node = grammar_.node(id);
    switch (node.op) {
      case Op::kBytes:
        to.readings.push_back({id, top});
        break;
      case Op::kSplit:
        for (const NodeId target : grammar_.graph().targets_of(node)) work_.push_back({target, top});
        break;
      case Op::kCall:
        work_.push_back({node.target, push_frame(to, {.node = node.exit, .parent = top, .is_return = true})});
        break;
      case Op::kReturn:
        if (top == kBottom) {
          to.may_end = true;
        } else {
          work_.push_back({to.frames[top].node, to.frames[top].parent});
        }
        break;
      case Op::kPush:
        work_.push_back({node.target, push_frame(to, {.node = id, .parent = top})});
        break;
      case Op::kCount:
        enter_count(node, top, to);
        break;
      case Op::kWithin: {
        const std::uint64_t value = to.frames[top].value;
        const auto ranges = std::span(grammar_.graph().ranges).subspan(node.begin, node.end - node.begin);
        const auto range = std::ranges::lower_bound(ranges, value, {}, &CountRange::last);
        if (range != ranges.end() && range->first <= value) work_.push_back({node.target, top});
        break;
      }
      case Op::kSetNext:
        enter_set_next(node, top, to);
        break;
      case Op::kSetPick: {
        const auto options = grammar_.graph().targets_of(node);
        for (std::size_t i = 0; i < options.size(); ++i) {
          if ((to.frames[top].value >> i & 1) == 0) work_.push_back({options[i], top});
        }
        if (node.target != kNoNode) work_.push_back({node.target, top});
        break;
      }
      case Op::kSetAdd: {
        Frame frame = to.frames[top];
        frame.value |= node.least;
        work_.push_back({node.target, push_frame(to, frame)});
        break;
      }
    }
  }
}

void Stepper::enter_count(const Node& node, std::int32_t top, Configuration& to) {
  Frame frame = to.frames[top];
  ++frame.value;
  if (node.most == kUnbounded) frame.value = std::min(frame.value, node.least);
  if (node.exit != kNoNode && frame.value >= node.least) work_.push_back({node.exit, frame.parent});
  if (frame.value < node.most) work_.push_back({node.target, push_frame(to, frame)});
}

void Stepper::enter_set_next(const Node& node, std::int32_t top, Configuration& to) {
  const std::uint64_t value = to.frames[top].value;
  const Node& picker = grammar_.node(node.picker);
  const auto options = grammar_.graph().targets_of(picker);
  bool has_option = picker.target != kNoNode && permits(to, picker.target, top);
  for (std::size_t i = 0; i < options.size() && !has_option; ++i)
    has_option = (value >> i & 1) == 0 && permits(to, options[i], top);
  if ((value & node.least) == node.least) work_.push_back({node.exit, to.frames[top].parent});
  if (has_option) work_.push_back({node.target, top});
}

void tidy(Configuration& at) {
  static constexpr std::int32_t kUnused = -2;
  std::vector<std::int32_t> moved(at.frames.size(), kUnused);
  for (const Configuration::Reading& reading : at.readings) {
    for (std::int32_t f = reading.top; f != kBottom && moved[f] == kUnused; f = at.frames[f].parent)
      moved[f] = 0;
  }
  std::map<std::tuple<std::int32_t, NodeId, std::uint64_t, bool>, std::int32_t> kept;
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < at.frames.size(); ++i) {
    if (moved[i] == kUnused) continue;
    Frame frame = at.frames[i];
    if (frame.parent != kBottom) frame.parent = moved[frame.parent];
    const auto [found, is_new] = kept.try_emplace({frame.parent, frame.node, frame.value, frame.is_return},
                                                  static_cast<std::int32_t>(frames.size()));
    if (is_new) frames.push_back(frame);
    moved[i] = found->second;
  }
  for (Configuration::Reading& reading : at.readings) {
    if (reading.top != kBottom) reading.top = moved[reading.top];
  }
  std::ranges::sort(at.readings);
  at.readings.erase(std::unique(at.readings.begin(), at.readings.end()), at.readings.end());
  at.frames = std::move(frames);
}

}  // namespace baleen
