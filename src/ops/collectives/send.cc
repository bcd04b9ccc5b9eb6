#include "ops/collectives/send.h"

#include <array>

namespace baleen::ops {
namespace {

template <class Float>
std::size_t size_in_bytes(const ActivationView<Float, 3>& view) {
  return static_cast<std::size_t>(view.size() * size_of(view.element_type()));
}

}  // namespace

std::vector<RankMessage> Send::messages(const SendArgs& args) {
  return {{MessageKind::kSend, args.num_ranks, bytes_of(args.x)}};
}

void Send::accesses(const SendArgs& args, Accesses& to) { to.read(args.x); }

std::span<const CpuVariant<Send>> Send::cpu_variants() {
  static constexpr std::array<CpuVariant<Send>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const SendArgs& args, CpuContext& context) {
          std::array<std::span<const std::byte>, 2> send{};
          const std::array<std::span<std::byte>, 2> receive{};
          send[args.pair->place == 0 ? 1 : 0] = {args.x.address(), size_in_bytes(args.x)};
          communicator_of(context, kName).exchange(*args.pair, send, receive);
        }}}};
  return kVariants;
}

void Receive::accesses(const ReceiveArgs& args, Accesses& to) { to.write(args.y); }

std::span<const CpuVariant<Receive>> Receive::cpu_variants() {
  static constexpr std::array<CpuVariant<Receive>, 1> kVariants{
      {{.name = kReferenceVariant, .run = [](const ReceiveArgs& args, CpuContext& context) {
          const std::array<std::span<const std::byte>, 2> send{};
          std::array<std::span<std::byte>, 2> receive{};
          receive[args.pair->place == 0 ? 1 : 0] = {args.y.address(), size_in_bytes(args.y)};
          communicator_of(context, kName).exchange(*args.pair, send, receive);
        }}}};
  return kVariants;
}

}  // namespace baleen::ops
