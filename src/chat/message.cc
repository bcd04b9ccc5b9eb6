#include "chat/message.h"

#include "chat/format.h"

namespace baleen {

std::string_view role_name(const Message& message) {
  for (const auto& [role, name] : chat_format::kRoles) {
    if (message.role == role) return name;
  }
  return message.unknown_role;
}

}  // namespace baleen
