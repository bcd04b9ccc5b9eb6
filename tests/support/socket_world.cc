#include "tests/support/socket_world.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/error.h"

namespace baleen::test {
namespace {

constexpr unsigned kMaxSeconds = 120;  ///< of a process: ends what hangs

struct Head {
  std::int64_t tag;
  std::int64_t num_bytes;
};

}  // namespace

/// Writes messages in a thread of its own: what is sent may be more than a socket holds.
struct SocketWorld::Sender {
  explicit Sender(int to) : socket(to), thread([this] { run(); }) {}
  ~Sender() {
    {
      const std::scoped_lock lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }
  void push(std::vector<std::byte> bytes) {
    {
      const std::scoped_lock lock(mutex);
      queue.push_back(std::move(bytes));
    }
    changed.notify_all();
  }
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ends || !queue.empty(); });
      if (queue.empty()) return;
      const std::vector<std::byte> bytes = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      for (std::size_t done = 0; done < bytes.size();) {
        pollfd ready{.fd = socket, .events = POLLOUT, .revents = 0};
        static_cast<void>(poll(&ready, 1, 1000));
        const ssize_t count = ::send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
        if (count > 0) {
          done += static_cast<std::size_t>(count);
        } else if (errno != EAGAIN && errno != EINTR) {
          return;  // the other process has ended, which its waits tell
        }
      }
      lock.lock();
    }
  }

  int socket;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::vector<std::byte>> queue;
  bool ends = false;
  std::thread thread;
};

SocketWorld::SocketWorld(std::int64_t rank, std::vector<int> sockets) : rank_(rank), peers_(sockets.size()) {
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    if (sockets[i] < 0) continue;
    peers_[i].socket = sockets[i];
    static_cast<void>(fcntl(sockets[i], F_SETFL, O_NONBLOCK));
    peers_[i].sender = std::make_unique<Sender>(sockets[i]);
  }
}

SocketWorld::~SocketWorld() {
  for (Peer& peer : peers_) {
    peer.sender.reset();
    if (peer.socket >= 0) static_cast<void>(::close(peer.socket));
  }
}

void SocketWorld::start_send(std::int64_t to, int tag, std::span<const std::byte> bytes) {
  const Head head{.tag = tag, .num_bytes = std::ssize(bytes)};
  std::vector<std::byte> message(sizeof(head) + bytes.size());
  std::memcpy(message.data(), &head, sizeof(head));
  std::ranges::copy(bytes, message.begin() + sizeof(head));
  peers_[static_cast<std::size_t>(to)].sender->push(std::move(message));
}

void SocketWorld::start_receive(std::int64_t from, int tag, std::span<std::byte> bytes) {
  const std::scoped_lock lock(mutex_);
  peers_[static_cast<std::size_t>(from)].wanted.push_back({tag, bytes});
}

void SocketWorld::receive(Peer& peer) {
  if (peer.socket < 0) return;
  std::byte piece[1 << 16];
  ssize_t count = 0;
  while ((count = ::recv(peer.socket, piece, sizeof(piece), 0)) > 0)
    peer.read.insert(peer.read.end(), piece, piece + count);
  std::size_t at = 0;
  Head head{};
  while (peer.read.size() - at >= sizeof(head)) {
    std::memcpy(&head, peer.read.data() + at, sizeof(head));
    const auto size = static_cast<std::size_t>(head.num_bytes);
    if (peer.read.size() - at - sizeof(head) < size) break;
    const auto begin = peer.read.begin() + static_cast<std::ptrdiff_t>(at + sizeof(head));
    peer.come.push_back({static_cast<int>(head.tag), {begin, begin + head.num_bytes}});
    at += sizeof(head) + size;
  }
  peer.read.erase(peer.read.begin(), peer.read.begin() + static_cast<std::ptrdiff_t>(at));
}

std::int64_t SocketWorld::test() {
  const std::scoped_lock lock(mutex_);
  std::int64_t missing = -1;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Peer& peer = peers_[i];
    receive(peer);
    while (!peer.wanted.empty()) {
      const Wanted& wanted = peer.wanted.front();
      const auto message = std::ranges::find(peer.come, wanted.tag, &Message::tag);
      if (message == peer.come.end()) break;
      if (message->bytes.size() != wanted.to.size()) {
        fail("rank {} sent {} bytes, {} were expected", i, message->bytes.size(), wanted.to.size());
      }
      std::ranges::copy(message->bytes, wanted.to.begin());
      peer.come.erase(message);
      peer.wanted.pop_front();
    }
    if (!peer.wanted.empty()) missing = static_cast<std::int64_t>(i);
  }
  return missing;
}

std::int64_t SocketWorld::waiting_bytes(std::int64_t from, int tag) {
  const std::scoped_lock lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  receive(peer);
  const auto message = std::ranges::find(peer.come, tag, &Message::tag);
  return message == peer.come.end() ? -1 : std::ssize(message->bytes);
}

std::string run_processes(std::int64_t count,
                          const std::function<void(const std::shared_ptr<MpiWorld>&)>& work) {
  const auto size = static_cast<std::size_t>(count);
  std::vector<std::vector<int>> sockets(size, std::vector<int>(size, -1));
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return "no sockets";
      sockets[i][j] = pair[0];
      sockets[j][i] = pair[1];
    }
  }
  struct Child {
    pid_t id;
    int said;
  };
  std::vector<Child> children;
  for (std::size_t rank = 0; rank < size; ++rank) {
    int said[2];
    if (pipe(said) != 0) return "no pipe";
    const pid_t id = fork();
    if (id == 0) {
      alarm(kMaxSeconds);
      for (std::size_t other = 0; other < size; ++other) {
        for (const int socket : sockets[other])
          if (other != rank && socket >= 0) ::close(socket);
      }
      std::string what;
      try {
        work(std::make_shared<SocketWorld>(static_cast<std::int64_t>(rank), sockets[rank]));
      } catch (const std::exception& error) {
        what = fmt::format("process {}: {}", rank, error.what());
      }
      static_cast<void>(!write(said[1], what.data(), what.size()));
      _exit(what.empty() ? 0 : 1);
    }
    ::close(said[1]);
    children.push_back({id, said[0]});
  }
  for (const std::vector<int>& own : sockets) {
    for (const int socket : own)
      if (socket >= 0) ::close(socket);
  }
  std::string all;
  for (const Child& child : children) {
    char text[4096];
    for (ssize_t length = 0; (length = read(child.said, text, sizeof(text))) > 0;)
      all.append(text, static_cast<std::size_t>(length));
    ::close(child.said);
    int status = 0;
    static_cast<void>(waitpid(child.id, &status, 0));
    if (WIFSIGNALED(status)) all += fmt::format("a process ended by signal {}", WTERMSIG(status));
  }
  return all;
}

}  // namespace baleen::test
