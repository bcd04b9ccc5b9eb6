// Which GPU each process has, and when NCCL joins them.
#include "rank_engine/rank_places.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "model/presets.h"

namespace baleen {
namespace {

using Hosts = std::vector<std::int64_t>;
using Gpus = std::vector<int>;

std::vector<DeviceChoice> choices(const Gpus& indices) {
  std::vector<DeviceChoice> devices;
  for (const int index : indices) devices.push_back(planned_gpu(index));
  return devices;
}

EngineOptions on_gpus(const ParallelPlan& plan, const Gpus& devices = {}) {
  return {.device = planned_gpu(), .rank_devices = choices(devices), .parallel = plan};
}

Gpus places(const EngineOptions& options) {
  Gpus indices;
  for (const DeviceChoice& device : options.rank_devices) indices.push_back(device.index);
  return indices;
}

template <class Work>
std::string sentence(const Work& work) {
  try {
    static_cast<void>(work());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(RankPlaces, OneHostKeepsPeerMemory) {
  const EngineOptions placed = placed_on_gpus(on_gpus({.dp = 2}), {0, 0}, choices({0, 1, 2}));
  EXPECT_EQ(places(placed), (Gpus{0, 1}));
  EXPECT_EQ(placed.messages, GpuMessages::kAutomatic);
  EXPECT_EQ(places(placed_on_gpus(on_gpus({.dp = 2}, {3, 1}), {0, 0}, choices({0}))), (Gpus{3, 1}));
  EXPECT_EQ(placed_on_gpus(on_gpus({}), {0, 0}, choices({0, 1})).parallel.num_devices, 2);
}

TEST(RankPlaces, SeveralHostsTakeNccl) {
  const EngineOptions placed = placed_on_gpus(on_gpus({.dp = 4}), {0, 0, 1, 1}, choices({0, 1}));
  EXPECT_EQ(placed.messages, GpuMessages::kNccl);
  EXPECT_EQ(places(placed), (Gpus{0, 1, 0, 1}));
  // In turns, GPUs of a host by their list, and a list for all.
  EXPECT_EQ(places(placed_on_gpus(on_gpus({.dp = 4}), {0, 1, 0, 1}, choices({0, 1}))), (Gpus{0, 0, 1, 1}));
  EXPECT_EQ(places(placed_on_gpus(on_gpus({.dp = 4}, {2, 3}), {0, 0, 1, 1}, choices({0, 1, 2, 3}))),
            (Gpus{2, 3, 2, 3}));
  EXPECT_EQ(places(placed_on_gpus(on_gpus({.dp = 2}, {1, 0}), {0, 1}, choices({0, 1}))), (Gpus{1, 0}));
  // A launcher that shows each process one.
  EXPECT_EQ(places(placed_on_gpus(on_gpus({.dp = 4}), {0, 0, 1, 1}, choices({0}))), (Gpus{0, 0, 0, 0}));
}

TEST(RankPlaces, WhatCannotBeIsRefused) {
  const auto refusal = [](const EngineOptions& options, const Hosts& hosts, const Gpus& gpus) {
    return sentence([&] { return placed_on_gpus(options, hosts, choices(gpus)); });
  };
  EngineOptions peers = on_gpus({.dp = 2});
  peers.messages = GpuMessages::kPeerMemory;
  EXPECT_EQ(refusal(peers, {0, 1}, {0}),
            "the 2 ranks are on 2 hosts, which peer memory does not reach; NCCL does: leave out ‹messages› "
            "peer-memory");
  EXPECT_NE(refusal(on_gpus({.dp = 2, .expert_transport = ExpertTransport::kPeerMemory}), {0, 1}, {0})
                .find("leave out ‹expert transport›"),
            std::string::npos);
  EXPECT_NE(refusal(on_gpus({.dp = 3}), {0, 0, 0}, {0, 1})
                .find("3 processes were started on a host, and there are 2"),
            std::string::npos);
  EXPECT_NE(refusal(on_gpus({.dp = 3}), {0, 1, 0}, {}).find("2 processes were started on a host"),
            std::string::npos);
}

/// Who names a way of messages or of experts' rows has named both.
TEST(RankPlaces, MessagesAndExpertTransportGoTogether) {
  const ModelConfig config = preset_config("tiny-flash");
  const auto full = [&](ParallelPlan plan, GpuMessages messages) {
    EngineOptions options = on_gpus(plan, {0, 1});
    options.messages = messages;
    return resolved(options, config);
  };
  const EngineOptions usual = full({.dp = 2}, GpuMessages::kAutomatic);
  EXPECT_EQ(usual.messages, GpuMessages::kPeerMemory);
  EXPECT_EQ(usual.parallel.expert_transport, ExpertTransport::kAutomatic);
  for (const EngineOptions& options :
       {full({.dp = 2}, GpuMessages::kNccl),
        full({.dp = 2, .expert_transport = ExpertTransport::kNccl}, GpuMessages::kAutomatic),
        resolved(full({.dp = 2}, GpuMessages::kNccl), config)}) {
    EXPECT_EQ(options.messages, GpuMessages::kNccl);
    EXPECT_EQ(options.parallel.expert_transport, ExpertTransport::kNccl);
  }
  const EngineOptions sums = full({.tp = 2}, GpuMessages::kNccl);
  EXPECT_EQ(sums.parallel.expert_transport, ExpertTransport::kAutomatic) << "sums need no dispatch";
  EXPECT_NE(sentence([&] {
              return full({.dp = 2, .expert_transport = ExpertTransport::kPeerMemory}, GpuMessages::kNccl);
            }).find("all messages of a service go one way"),
            std::string::npos);
  EXPECT_NE(sentence([&] {
              return full({.dp = 2, .expert_transport = ExpertTransport::kNccl}, GpuMessages::kPeerMemory);
            }).find("‹messages› peer-memory and ‹expert transport› nccl"),
            std::string::npos);
  EXPECT_NE(sentence([&] {
              return resolved({.messages = GpuMessages::kNccl, .parallel = {.dp = 2}}, config);
            }).find("these ranks are on processors"),
            std::string::npos);
}

}  // namespace
}  // namespace baleen
