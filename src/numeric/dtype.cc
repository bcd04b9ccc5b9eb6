#include "numeric/dtype.h"

#include <array>
#include <utility>

namespace baleen {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 16> kDTypeNames{{{DType::kF32, "F32"},
                                                                          {DType::kBF16, "BF16"},
                                                                          {DType::kF8E4M3, "F8_E4M3"},
                                                                          {DType::kF8E8M0, "F8_E8M0"},
                                                                          {DType::kI8, "I8"},
                                                                          {DType::kU8, "U8"},
                                                                          {DType::kI32, "I32"},
                                                                          {DType::kI64, "I64"},
                                                                          {DType::kF16, "F16"},
                                                                          {DType::kF64, "F64"},
                                                                          {DType::kF8E5M2, "F8_E5M2"},
                                                                          {DType::kI16, "I16"},
                                                                          {DType::kU16, "U16"},
                                                                          {DType::kU32, "U32"},
                                                                          {DType::kU64, "U64"},
                                                                          {DType::kBool, "BOOL"}}};

constexpr std::array<std::pair<Precision, std::string_view>, 3> kPrecisionNames{
    {{Precision::kExact, "exact"}, {Precision::kBf16, "bf16"}, {Precision::kReleased, "released"}}};

template <class Table>
std::string_view name_of(const Table& table, auto value) {
  for (const auto& [key, name] : table) {
    if (key == value) return name;
  }
  return "?";
}

template <class Key, class Table>
std::optional<Key> value_of(const Table& table, std::string_view wanted) {
  for (const auto& [key, name] : table) {
    if (name == wanted) return key;
  }
  return std::nullopt;
}

}  // namespace

std::string_view dtype_name(DType type) { return name_of(kDTypeNames, type); }
std::optional<DType> dtype_from_name(std::string_view name) { return value_of<DType>(kDTypeNames, name); }
std::string_view precision_name(Precision precision) { return name_of(kPrecisionNames, precision); }
std::optional<Precision> precision_from_name(std::string_view name) {
  return value_of<Precision>(kPrecisionNames, name);
}

}  // namespace baleen
