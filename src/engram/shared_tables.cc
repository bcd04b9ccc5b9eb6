#include "engram/shared_tables.h"

namespace baleen {

void SharedEngramTables::choose(const std::function<bool(bool is_shared)>& choose) {
  const std::scoped_lock lock(choosing_);
  if (choose(is_chosen_)) is_chosen_ = true;
}

std::shared_ptr<const EngramTables> SharedEngramTables::get(
    const std::function<std::shared_ptr<const EngramTables>()>& load) {
  const std::scoped_lock lock(loading_);
  if (auto there = tables_.lock()) return there;
  auto loaded = load();
  tables_ = loaded;
  return loaded;
}

}  // namespace baleen
