/// Messages beside other operations: what a rank sends and awaits while it computes something else.
#pragma once

#include <cstdint>
#include <functional>

namespace baleen {

class MessageLane {
 public:
  /// Posts that can be under way at once, numbered from 0.
  static constexpr int kNumPosts = 2;

  virtual ~MessageLane() = default;

  /// `messages` calls operations that exchange data with other ranks and take no scratch. They take effect
  /// behind everything that was called or posted before, and perhaps beside what is called from now on until
  /// `join(number)`; then they have `num_units` of the device's units (DeviceTraits), and what is beside them
  /// the others. All ranks exchange in the same order, whether posted or not; who exchanges anything by a
  /// call has joined all posts before.
  virtual void post(int number, int num_units, const std::function<void()>& messages) = 0;
  /// What is called from now on is behind what was posted last as `number`; of nothing posted a no-op.
  virtual void join(int number) = 0;
};

/// In the order of the calls: of devices whose operations have taken effect when their call returns.
class MessagesInOrder final : public MessageLane {
 public:
  void post(int /*number*/, int /*num_units*/, const std::function<void()>& messages) override { messages(); }
  void join(int /*number*/) override {}
};

}  // namespace baleen
