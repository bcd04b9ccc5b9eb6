/// An engine's place among the ranks that run a model together.
#pragma once

#include "comm/communicator.h"
#include "device/make_device.h"
#include "model/rank_layout.h"

namespace baleen {

/// The default: one rank, which holds the whole model and exchanges nothing.
struct EngineRank {
  RankLayout layout;
  Communicator* communicator = nullptr;  ///< to the other ranks; outlives the engine
  const PeerRank* peers = nullptr;       ///< a GPU's way to them; outlives the engine
  [[nodiscard]] bool is_alone() const { return communicator == nullptr; }
};

}  // namespace baleen
