#include "hardware/device_profile.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "hardware/built_in_profiles.h"

namespace baleen {
namespace {

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

/// "NVIDIA A100-SXM4-40GB": nvidia, a100, sxm4, 40gb.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    if (c == ' ' || c == '-') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return words;
}

/// Between two points, over the logarithm of rows; what one of them does not say is the other's.
EfficiencyPoint between(const EfficiencyPoint& low, const EfficiencyPoint& high, double num_rows) {
  const double share = std::log(num_rows / low.num_rows) / std::log(high.num_rows / low.num_rows);
  const auto mix = [share](double a, double b) {
    if (a <= 0) return b;
    return b <= 0 ? a : a + share * (b - a);
  };
  EfficiencyPoint point{.num_rows = num_rows,
                        .compute = mix(low.compute, high.compute),
                        .memory = mix(low.memory, high.memory),
                        .scalar = mix(low.scalar, high.scalar)};
  if (low.static_seconds >= 0 && high.static_seconds >= 0)
    point.static_seconds = low.static_seconds + share * (high.static_seconds - low.static_seconds);
  return point;
}

}  // namespace

EfficiencyPoint DeviceProfile::efficiency_of(std::string_view operation, double num_rows) const {
  EfficiencyPoint point;
  if (const auto found = operations.find(operation);
      found != operations.end() && !found->second.points.empty()) {
    const std::vector<EfficiencyPoint>& points = found->second.points;
    const auto above =
        std::ranges::find_if(points, [&](const EfficiencyPoint& p) { return p.num_rows >= num_rows; });
    if (above == points.end()) {
      point = points.back();
    } else if (above == points.begin()) {
      point = points.front();
    } else {
      point = between(*std::prev(above), *above, num_rows);
    }
  }
  if (point.compute <= 0) point.compute = efficiency.compute;
  if (point.memory <= 0) point.memory = efficiency.memory;
  if (point.scalar <= 0) point.scalar = efficiency.scalar;
  return point;
}

double MessageTimes::seconds_of(double sent_bytes) const {
  if (points.empty()) return 0;
  if (sent_bytes <= points.front().bytes || points.size() == 1) return points.front().seconds;
  auto above =
      std::ranges::find_if(points, [&](const MessagePoint& point) { return point.bytes >= sent_bytes; });
  if (above == points.end()) --above;
  const MessagePoint& low = *std::prev(above);
  const double slope = (above->seconds - low.seconds) / (above->bytes - low.bytes);
  return std::max(points.front().seconds, low.seconds + slope * (sent_bytes - low.bytes));
}

const MessageTimes* DeviceProfile::times_of_message(std::string_view operation, std::string_view kind) const {
  for (const std::string_view key : {operation, kind}) {
    if (const auto found = messages.find(key); found != messages.end()) return &found->second;
  }
  return nullptr;
}

std::string listed_text(const DeviceProfile& profile) {
  return profile.description + (profile.from_data_sheet ? "; data sheet, not measured" : "");
}

double pcie_lane_bytes_per_second(std::int64_t generation) {
  // Transfers a second, of a bit each: 8 bits in 10 up to generation 2, 128 in 130 up to 5; 6 has frames of
  // 236 bytes in 256.
  switch (generation) {
    case 1:
      return 2.5e9 / 10;
    case 2:
      return 5e9 / 10;
    case 3:
      return 8e9 * 128 / 130 / 8;
    case 4:
      return 16e9 * 128 / 130 / 8;
    case 5:
      return 32e9 * 128 / 130 / 8;
    case 6:
      return 64e9 * 236 / 256 / 8;
    default:
      return 0;
  }
}

std::span<const DeviceProfile> device_profiles() {
  static const std::vector<DeviceProfile> profiles = [] {
    std::vector<DeviceProfile> read;
    for (const BuiltInProfile& file : built_in_profiles())
      read.push_back(parse_device_profile(file.text, file.name));
    return read;
  }();
  return profiles;
}

const DeviceProfile* find_device_profile(std::string_view name) {
  const std::span<const DeviceProfile> all = device_profiles();
  const auto found =
      std::ranges::find_if(all, [&](const DeviceProfile& p) { return same_name(p.name, name); });
  return found == all.end() ? nullptr : &*found;
}

const DeviceProfile* find_profile_of_gpu(std::string_view driver_name) {
  const std::vector<std::string> words = words_of(driver_name);
  const auto has = [&](const std::string& word) { return std::ranges::find(words, word) != words.end(); };
  const DeviceProfile* best = nullptr;
  if (has("laptop")) return best;
  for (const DeviceProfile& profile : device_profiles()) {
    // Calibrated profiles describe a machine, not a product.
    if (profile.is_cpu || profile.fuses || !std::ranges::all_of(words_of(profile.name), has)) continue;
    if (best == nullptr || profile.name.size() > best->name.size()) best = &profile;
  }
  return best;
}

const DeviceProfile* find_calibrated_profile_of_gpu(std::string_view driver_name) {
  const DeviceProfile* datasheet = find_profile_of_gpu(driver_name);
  if (datasheet == nullptr) return nullptr;
  const std::span<const DeviceProfile> all = device_profiles();
  const auto calibrated = std::ranges::find_if(
      all, [&](const DeviceProfile& p) { return p.fuses && p.name.starts_with(datasheet->name + "-"); });
  return calibrated == all.end() ? datasheet : &*calibrated;
}

}  // namespace baleen
