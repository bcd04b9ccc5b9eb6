#include "server/labelled_exchange.h"

#include <algorithm>
#include <utility>

namespace baleen {
namespace {

constexpr std::size_t kMaxIdBytes = 128;
/// Beyond, a list in a header is cut, and a name in it.
constexpr std::size_t kMaxListBytes = 1024, kMaxNameBytes = 128;

bool is_plain(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  return is_letter || std::string_view("._:/+=@-").find(c) != std::string_view::npos;
}

class LabelledExchange final : public Exchange {
 public:
  LabelledExchange(std::shared_ptr<Exchange> exchange, RequestLabel name, const Protocol& of)
      : exchange_(std::move(exchange)),
        label(std::move(name)),
        protocol(of),
        headers(request_id_headers(label.request_id)) {}

  void respond(HttpResponse response) override {
    response.headers.insert(response.headers.end(), headers.begin(), headers.end());
    exchange_->respond(std::move(response));
  }
  void begin_events(std::vector<std::pair<std::string, std::string>> others) override {
    others.insert(others.end(), headers.begin(), headers.end());
    exchange_->begin_events(std::move(others));
  }
  bool send(std::string bytes) override { return exchange_->send(std::move(bytes)); }
  void end() override { exchange_->end(); }
  void on_gone(std::function<void()> callback) override { exchange_->on_gone(std::move(callback)); }
  void do_not_await() override { exchange_->do_not_await(); }

 private:
  std::shared_ptr<Exchange> exchange_;

 public:
  const RequestLabel label;
  const Protocol& protocol;
  std::vector<std::pair<std::string, std::string>> headers;
};

}  // namespace

std::string request_id_of(const HttpRequest& request, std::string otherwise) {
  for (const char* name : {"x-request-id", "request-id"}) {
    const std::string_view id = request.header(name);
    if (!id.empty() && id.size() <= kMaxIdBytes && std::ranges::all_of(id, is_plain)) return std::string(id);
  }
  return otherwise;
}

std::vector<std::pair<std::string, std::string>> request_id_headers(const std::string& request_id) {
  return {{"x-request-id", request_id}, {"request-id", request_id}};
}

std::shared_ptr<Exchange> labelled_exchange(std::shared_ptr<Exchange> exchange, RequestLabel label,
                                            const Protocol& protocol) {
  return std::make_shared<LabelledExchange>(std::move(exchange), std::move(label), protocol);
}

RequestLabel label_of(const Exchange& exchange) {
  const auto* labelled = dynamic_cast<const LabelledExchange*>(&exchange);
  return labelled == nullptr ? RequestLabel{} : labelled->label;
}

const Protocol& protocol_of(const Exchange& exchange) {
  const auto* labelled = dynamic_cast<const LabelledExchange*>(&exchange);
  return labelled == nullptr ? kChatCompletionsApi : labelled->protocol;
}

void name_in_header(Exchange& exchange, std::string_view header, const std::vector<std::string>& names) {
  auto* labelled = dynamic_cast<LabelledExchange*>(&exchange);
  if (labelled == nullptr || names.empty()) return;
  std::string list;
  for (const std::string& name : names) {
    if (list.size() > kMaxListBytes) break;
    if (!list.empty()) list += ", ";
    for (const char c : std::string_view(name).substr(0, kMaxNameBytes)) {
      list += is_plain(c) || std::string_view(" ()[]_,$").find(c) != std::string_view::npos ? c : '?';
    }
  }
  // A request that is prepared a second time, with more work allowed, names them again.
  std::erase_if(labelled->headers, [header](const auto& one) { return one.first == header; });
  labelled->headers.emplace_back(header, std::move(list));
}

}  // namespace baleen
