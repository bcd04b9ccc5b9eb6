#include "server/served_request.h"

#include <chrono>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "chat/format.h"
#include "log/log.h"

namespace baleen {
namespace {

/// Between two events about a prompt's progress; steps of a GPU are far shorter.
constexpr double kProgressSeconds = 0.2;

/// What proxies write in their logs for a client that left.
constexpr int kClientGone = 499;

/// Stop strings stand in content, so calls of a reply that ended by one are whole, and to be made.
ReplyEnd end_for_client(ReplyEnd end, std::size_t num_calls) {
  const bool is_whole = end == ReplyEnd::kStopToken || end == ReplyEnd::kStopString;
  return is_whole && num_calls > 0 ? ReplyEnd::kToolCalls : end;
}

std::size_t content_bytes(const std::vector<ReplyPart>& parts) {
  std::size_t bytes = 0;
  for (const ReplyPart& part : parts) {
    if (part.kind == ReplyPart::Kind::kContent) bytes += part.text.size();
  }
  return bytes;
}

}  // namespace

/// Carries what the scheduler publishes to the HTTP thread.
class ServedRequest::Sink : public ReplySink {
 public:
  Sink(std::shared_ptr<ServedRequest> served, std::size_t choice_idx)
      : served_(std::move(served)), choice_idx_(choice_idx) {}

  void piece(const ReplyPiece& piece) override {
    served_->context_.http.post([served = served_, idx = choice_idx_, piece, seconds = monotonic_seconds()] {
      served->guarded([&] { served->receive(idx, piece, seconds); });
    });
  }
  void progress(std::int64_t done, std::int64_t total) override {
    served_->context_.http.post(
        [served = served_, done, total] { served->guarded([&] { served->receive_progress(done, total); }); });
  }
  void finished(const ReplySummary& summary) override {
    served_->context_.http.post([served = served_, idx = choice_idx_, summary] {
      served->guarded([&] { served->finish_choice(idx, summary); });
    });
  }

 private:
  std::shared_ptr<ServedRequest> served_;
  std::size_t choice_idx_;
};

ServedRequest::ServedRequest(const ServingContext& context, PreparedRequest request, ReplyIdentity identity,
                             std::shared_ptr<Exchange> exchange)
    : context_(context),
      request_(std::move(request)),
      identity_(std::move(identity)),
      exchange_(std::move(exchange)),
      end_of_reasoning_(context_.model.tokenizer->id_of(chat_format::kEndThink)) {
  for (std::size_t i = 0; i < request_.choices.size(); ++i) {
    choices_.push_back({.id = {},
                        .reader = ReplyReader(reply_mode(request_), callable_tools(request_.asked),
                                              request_.enforcement, call_tags(context_.model.prompt_profile)),
                        .in_reasoning = request_.starts_in_reasoning});
  }
  Usage at_start;
  at_start.prompt_tokens = request_.prompt_tokens;
  encoder_ = make_encoder(request_.asked, identity_, at_start);
  report_.protocol = request_.asked.protocol;
  report_.stream = request_.asked.stream;
  report_.request_id = identity_.request_id;
}

template <class Step>
void ServedRequest::guarded(const Step& step) {
  try {
    step();
  } catch (const std::exception& exception) {
    if (answered_) return;
    log_line("baleen: a reply was cut short: {}", exception.what());
    try {
      fail({.status = 503,
            .type = "server_error",
            .code = "out_of_memory",
            .message = "the server is short of memory; try again in a moment"});
    } catch (const std::exception&) {
      exchange_.reset();  // ends the answer without its last chunk
    }
  }
}

bool ServedRequest::start() {
  try {
    return submit_all();
  } catch (const std::exception&) {
    answered_ = true;
    cancel();
    throw;
  }
}

bool ServedRequest::submit_all() {
  // All or none: a request that is half admitted would wait for ever for its other half.
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    Request& request = request_.choices[i];
    const std::size_t first_of_prompt =
        request_.prompt_of(i) * static_cast<std::size_t>(request_.asked.num_choices);
    if (i != first_of_prompt) request.after_prompt_of = choices_[first_of_prompt].id;
    choices_[i].id =
        context_.scheduler.submit(std::move(request), std::make_shared<Sink>(shared_from_this(), i));
    if (choices_[i].id) continue;
    cancel();
    answered_ = true;  // by the caller; what the cancelled choices still publish is passed over
    return false;
  }
  exchange_->on_gone([weak = weak_from_this()] {
    const auto served = weak.lock();
    if (!served) return;
    served->report_.status = kClientGone;
    served->cancel();
  });
  if (request_.asked.stream) {
    exchange_->begin_events({});
    send(encoder_->begin());
    keep_alive();
  }
  if (request_.asked.echo) echo_prompts();
  return true;
}

/// The texts at once; the logprobs of their tokens come as they are computed.
void ServedRequest::echo_prompts() {
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const std::size_t prompt = request_.prompt_of(i);
    const ReplyPart text{.kind = ReplyPart::Kind::kContent, .text = request_.prompt_texts[prompt]};
    std::vector<TokenLogprobs> logprobs;
    choices_[i].num_echoed = 1;
    if (request_.asked.logprobs && request_.added_tokens[prompt] == 0) {
      logprobs.push_back({.token = {std::string(context_.model.tokenizer->bytes_of(context_.model.bos)), 0},
                          .is_first = true});
    }
    send(encoder_->parts(static_cast<int>(i), {text}, logprobs));
  }
}

std::vector<TokenLogprobs> ServedRequest::prompt_logprobs(std::size_t choice_idx, const ReplyPiece& piece) {
  std::vector<TokenLogprobs> result;
  Choice& choice = choices_[choice_idx];
  for (const ReplyToken& token : piece.prompt_tokens) {
    TokenLogprobs& entry = result.emplace_back(logprobs_of(token));
    // The client's first token, behind one that the server put before it: as the public API has it, without
    // logprob.
    entry.is_first = choice.num_echoed++ == request_.added_tokens[request_.prompt_of(choice_idx)];
  }
  return result;
}

std::vector<ReplyPart> ServedRequest::read(Choice& choice, const MarkedText& text) {
  if (request_.asked.protocol->has_raw_prompt) {
    if (text.text.empty()) return {};
    return {{.kind = ReplyPart::Kind::kContent, .text = text.text}};
  }
  return choice.reader.feed(text);
}

TokenLogprobs ServedRequest::logprobs_of(const ReplyToken& token) const {
  const auto text_of = [&](TokenId id, double logprob) {
    return TokenText{std::string(context_.model.tokenizer->bytes_of(id)), logprob};
  };
  TokenLogprobs entry{.token = text_of(token.id, token.logprob.value_or(0))};
  for (const TokenLogprob& other : token.top_logprobs) entry.top.push_back(text_of(other.id, other.logprob));
  return entry;
}

/// Tokens of reasoning are counted, those after it are reported.
void ServedRequest::count_tokens(Choice& choice, const ReplyPiece& piece) {
  for (const ReplyToken& token : piece.tokens) {
    if (choice.in_reasoning) {
      ++choice.reasoning_tokens;
      if (token.id == end_of_reasoning_) choice.in_reasoning = false;
    } else if (request_.asked.logprobs && token.logprob && token.id != context_.model.eos) {
      choice.logprobs.add(logprobs_of(token));
    }
  }
}

void ServedRequest::receive(std::size_t choice_idx, const ReplyPiece& piece, double seconds) {
  if (answered_) return;
  Choice& choice = choices_[choice_idx];
  std::vector<TokenLogprobs> logprobs = prompt_logprobs(choice_idx, piece);
  if (!piece.tokens.empty()) {
    if (choice.last_piece_seconds >= 0)
      report_.token_gaps_seconds.push_back(seconds - choice.last_piece_seconds);
    choice.last_piece_seconds = seconds;
  }
  count_tokens(choice, piece);
  const std::vector<ReplyPart> parts = read(choice, piece.text);
  for (TokenLogprobs& token : choice.logprobs.take(content_bytes(parts)))
    logprobs.push_back(std::move(token));
  if (!parts.empty() || !logprobs.empty())
    send(encoder_->parts(static_cast<int>(choice_idx), parts, logprobs));
}

void ServedRequest::receive_progress(std::int64_t done, std::int64_t total) {
  if (answered_ || !request_.asked.stream || monotonic_seconds() - last_progress_seconds_ < kProgressSeconds)
    return;
  last_progress_seconds_ = monotonic_seconds();
  send(encoder_->progress(done, total));
}

void ServedRequest::remember_calls(std::size_t choice_idx) {
  const ReplyReader& reader = choices_[choice_idx].reader;
  std::vector<ToolCall> calls(reader.calls().begin(), reader.calls().end());
  for (std::size_t call_idx = 0; call_idx < calls.size(); ++call_idx) {
    calls[call_idx].id =
        tool_call_id(*request_.asked.protocol, identity_, static_cast<int>(choice_idx), call_idx);
  }
  context_.calls.remember(calls, reader.raw_calls());
}

void ServedRequest::finish_choice(std::size_t choice_idx, const ReplySummary& summary) {
  Choice& choice = choices_[choice_idx];
  choice.finished = true;
  choice.summary = summary;
  ++num_finished_;
  report_.choices.push_back(summary);
  if (!answered_) {
    if (summary.end == ReplyEnd::kFailed) {
      return fail({.status = 500, .type = "server_error", .message = context_.name_options(summary.error)});
    }
    if (summary.end == ReplyEnd::kCancelled) {  // not by the client, which is still there
      return fail({.status = 503,
                   .type = "server_error",
                   .message = "the server had to cut this reply short; its log may say why"});
    }
    std::vector<ReplyPart> rest;
    if (!request_.asked.protocol->has_raw_prompt) {
      rest = choice.reader.finish(summary.end == ReplyEnd::kLength || summary.end == ReplyEnd::kRepetition);
      remember_calls(choice_idx);
    }
    std::vector<TokenLogprobs> logprobs = choice.logprobs.take(content_bytes(rest));
    // What is left is white space at the end, or else the markup of calls or the stop string.
    if (!choice.reader.has_block() && summary.end != ReplyEnd::kStopString) {
      for (TokenLogprobs& token : choice.logprobs.rest()) logprobs.push_back(std::move(token));
    }
    if (!rest.empty() || !logprobs.empty())
      send(encoder_->parts(static_cast<int>(choice_idx), rest, logprobs));
    send(encoder_->choice_finished(static_cast<int>(choice_idx),
                                   end_for_client(summary.end, choice.reader.num_calls()),
                                   summary.stop_string));
  }
  if (num_finished_ == choices_.size()) finish();
}

void ServedRequest::finish() {
  report_.usage = usage();
  if (!answered_) {
    answered_ = true;
    std::string bytes = encoder_->finish(report_.usage);
    // Before the client hears that it is there.
    if (request_.asked.keeping.store) {
      context_.responses.keep(request_.asked.client_key, encoder_->record(), request_.asked.keeping);
    }
    if (request_.asked.stream) {
      exchange_->send(std::move(bytes));
      exchange_->end();
    } else {
      exchange_->respond({.body = std::move(bytes)});
    }
  }
  context_.on_done(report_);
}

void ServedRequest::fail(const ApiError& error) {
  answered_ = true;
  cancel();
  report_.status = error.status;
  std::string bytes = encoder_->failed(error);
  if (request_.asked.stream) {
    exchange_->send(std::move(bytes));
    exchange_->end();
  } else {
    exchange_->respond({.status = error.status, .body = std::move(bytes)});
  }
  if (num_finished_ == choices_.size()) context_.on_done(report_);
}

void ServedRequest::cancel() {
  for (const Choice& choice : choices_) {
    if (choice.id && !choice.finished) context_.scheduler.cancel(*choice.id);
  }
}

void ServedRequest::send(std::string bytes) {
  if (bytes.empty() || answered_) return;
  last_sent_seconds_ = monotonic_seconds();
  if (!exchange_->send(std::move(bytes))) {
    answered_ = true;
    report_.status = kClientGone;
    cancel();
  }
}

void ServedRequest::keep_alive() {
  context_.http.after(context_.keep_alive_seconds, [weak = weak_from_this()] {
    const auto served = weak.lock();
    if (!served || served->answered_) return;
    if (monotonic_seconds() - served->last_sent_seconds_ >= served->context_.keep_alive_seconds) {
      served->send(served->encoder_->keep_alive());
    }
    served->keep_alive();
  });
}

Usage ServedRequest::usage() const {
  Usage usage;
  usage.prompt_tokens = request_.prompt_tokens;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const ReplySummary& summary = choices_[i].summary;
    // The prompt is counted once for all its choices, and so is what the cache held of it.
    if (i % static_cast<std::size_t>(request_.asked.num_choices) == 0)
      usage.cached_tokens += summary.cached_tokens;
    usage.reply_tokens += summary.reply_tokens;
    usage.reasoning_tokens += choices_[i].reasoning_tokens;
    usage.drafted_tokens += summary.drafted_tokens;
    usage.accepted_tokens += summary.accepted_tokens;
  }
  return usage;
}

}  // namespace baleen
