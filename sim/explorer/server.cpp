// Implements serve() (explorer.hpp) as an HTTP/1.1 server with Boost.Beast: one thread with a
// coroutine per connection. Each question runs in a child process of its own, because a simulation
// may take long or crash, and the user may cancel it. The server forks the child, which writes its
// answer to a pipe.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/output.hpp"
#include "explorer/routes.hpp"

namespace lockstep {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

constexpr std::uint64_t most_bytes = 64 * 1024;  // largest size of a question
// Time limit for a request to arrive, and for a reply to be sent.
constexpr auto patience = std::chrono::seconds(30);

// The parts of a request that routes.hpp needs.
PageRequest plain(const http::request<http::string_body>& request) {
  const auto header = [&](http::field field) { return std::string(request[field]); };
  return {std::string(request.method_string()),
          std::string(request.target()),
          header(http::field::host),
          header(http::field::origin),
          header(http::field::content_type),
          std::string(request["X-Question"]),
          request.body()};
}

// Adds headers that forbid the browser to store the reply, to guess its type, and to load anything
// from other servers.
http::response<http::string_body> with_headers(PageReply reply, unsigned version, bool keep_alive) {
  http::response<http::string_body> response{static_cast<http::status>(reply.status), version};
  if (reply.type.empty()) reply.type = PageReply{}.type;
  response.set(http::field::content_type, reply.type);
  response.set(http::field::cache_control, "no-store");
  response.set("Content-Security-Policy", content_security_policy);
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Referrer-Policy", "no-referrer");
  response.keep_alive(keep_alive);
  response.body() = std::move(reply.body);
  response.prepare_payload();
  return response;
}

// Runs in a child process: writes lines "progress JSON" during the simulation, and at the end a
// line "STATUS JSON". The child is killed if the server ends.
[[noreturn]] void answer_in_child(const Explorer& explorer, const std::string& question, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Close all descriptors except the pipe. Otherwise a connection would remain open in the child
  // after the server has closed it.
  ::close_range(3, static_cast<unsigned>(out) - 1, 0);
  ::close_range(static_cast<unsigned>(out) + 1, ~0U, 0);
  const auto tell = [out](const std::string& line) {
    for (std::size_t done = 0; done < line.size();) {
      const ssize_t n = ::write(out, line.data() + done, line.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) ::_exit(1);
      done += static_cast<std::size_t>(n);
    }
  };
  // The parent reads line by line, so a new line replaces the page's progress as soon as it
  // arrives.
  const ExplorerReply reply = explorer.answer(question, [&](const RunProgress& now) {
    const nlohmann::json json{
        {"done", now.done}, {"all", now.all}, {"point", now.point}, {"fraction", now.fraction}};
    tell("progress " + json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  });
  tell(fmt::format("{} {}\n", reply.status, reply.json));
  ::_exit(0);
}

// A question that a child process answers, and the end of the pipe from which the answer is read.
// The destructor kills the child.
class RunningQuestion {
 public:
  RunningQuestion(const asio::any_io_executor& executor, const Explorer& explorer,
                  const std::string& question)
      : lines(executor) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) answer_in_child(explorer, question, ends[1]);
    ::close(ends[1]);
    lines.assign(ends[0]);
  }
  ~RunningQuestion() { end(); }
  RunningQuestion(const RunningQuestion&) = delete;
  RunningQuestion& operator=(const RunningQuestion&) = delete;
  // Kills the child and reaps it. May be called twice.
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
    pid_ = -1;
  }
  bool ended() const { return pid_ <= 0; }

  asio::posix::stream_descriptor lines;

 private:
  pid_t pid_ = -1;
};

// Waits for the end of the connection and then kills the child, because no page waits for its
// answer. If a socket is readable but has no bytes, its connection is closed.
void end_with_connection(tcp::socket& socket, const std::shared_ptr<RunningQuestion>& question) {
  socket.async_wait(tcp::socket::wait_read, [&socket, question](const beast::error_code& error) {
    if (error || question->ended()) return;  // answered: the socket may be gone
    char byte = 0;
    const ssize_t n = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
      end_with_connection(socket, question);  // the bytes have been read already
    } else if (n <= 0) {
      question->end();
    }
  });
}

// Starts the child for a question and reads its lines until the answer. Stores the progress in the
// meantime.
asio::awaitable<PageReply> answer(tcp::socket& socket, const PageRequest& request,
                                  const Explorer& explorer, Progress& progress) {
  const auto question =
      std::make_shared<RunningQuestion>(socket.get_executor(), explorer, request.body);
  end_with_connection(socket, question);
  PageReply reply{500, {}, "the simulation came to no end\n"};
  std::string text;
  beast::error_code error;
  while (true) {
    const std::size_t size =
        co_await asio::async_read_until(question->lines, asio::dynamic_buffer(text), '\n',
                                        asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    // A line is "KIND JSON" with a newline; KIND is "progress" or the HTTP status.
    const std::size_t blank = text.find(' ');
    const std::string kind = text.substr(0, blank);
    std::string json = text.substr(blank + 1, size - blank - 2);
    text.erase(0, size);
    if (kind != "progress") {
      reply = {std::stoi(kind), "application/json", std::move(json)};
      break;
    }
    progress[request.question] = std::move(json);
  }
  progress.erase(request.question);
  question->end();
  // End the wait of end_with_connection().
  socket.cancel(error);
  co_return reply;
}

// Serves one connection, request after request, until it is closed.
asio::awaitable<void> converse(beast::tcp_stream stream, const Explorer& explorer,
                               Progress& progress, int port) {
  beast::flat_buffer buffer;
  bool keep_alive = true;
  while (keep_alive) {
    http::request_parser<http::string_body> parser;
    parser.body_limit(most_bytes);
    stream.expires_after(patience);
    beast::error_code error;
    co_await http::async_read(stream, buffer, parser,
                              asio::redirect_error(asio::use_awaitable, error));
    PageReply reply;
    if (error == http::error::body_limit) {
      reply = {413, {}, "too long a question\n"};
      keep_alive = false;
    } else if (error) {
      break;  // gone, silent for too long, or no HTTP
    } else {
      keep_alive = parser.get().keep_alive();
      const PageRequest request = plain(parser.get());
      if (auto known = reply_to(request, explorer, progress, port)) {
        reply = std::move(*known);
      } else {
        reply = co_await answer(stream.socket(), request, explorer, progress);
      }
    }
    const auto response = with_headers(std::move(reply), parser.get().version(), keep_alive);
    stream.expires_after(patience);
    co_await http::async_write(stream, response, asio::use_awaitable);
  }
}

// Accepts connections forever; each gets a coroutine of its own.
asio::awaitable<void> accept_all(tcp::acceptor& acceptor, const Explorer& explorer, int port) {
  Progress progress;
  asio::steady_timer pause(acceptor.get_executor());
  while (true) {
    beast::error_code error;
    tcp::socket socket =
        co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    // Accepting may fail temporarily, for example if no descriptor is free: try again later.
    if (error) {
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::use_awaitable);
      continue;
    }
    asio::co_spawn(acceptor.get_executor(),
                   converse(beast::tcp_stream(std::move(socket)), explorer, progress, port),
                   [](const std::exception_ptr&) {});  // a broken connection is no error
  }
}

}  // namespace

void serve(const Explorer& explorer, int port, const std::function<void(int)>& ready) {
  asio::io_context io(1);
  tcp::acceptor acceptor(io);
  try {
    const tcp::endpoint here(asio::ip::address_v4::loopback(), static_cast<unsigned short>(port));
    acceptor.open(here.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(here);
    acceptor.listen();
  } catch (const boost::system::system_error& error) {
    throw OutputError(fmt::format("cannot listen on port {}: {}; --port 0 takes a free one", port,
                                  error.code().message()));
  }
  // Nothing must be cleaned up, because children end with their parent.
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { ::_exit(0); });
  ready(acceptor.local_endpoint().port());
  asio::co_spawn(io, accept_all(acceptor, explorer, acceptor.local_endpoint().port()),
                 asio::detached);
  io.run();  // accepts for ever
  std::abort();
}

}  // namespace lockstep
