// Builds hosts from network namespaces, veth pairs and token bucket filters by calling iproute2
// (`ip`, `tc`). Names contain the process id, so that namespaces of killed programs can be found
// and removed.
#include "launch/network.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "core/errors.hpp"
#include "core/units.hpp"

extern char** environ;

namespace lockstep {

namespace {

constexpr const char* name_start = "lockstep-";

// iproute2 is in sbin, which many users do not have in PATH.
std::string find_tool(const std::string& name) {
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  path += ":/usr/sbin:/sbin:/usr/bin:/bin";
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string file = path.substr(begin, end - begin) + "/" + name;
    if (end > begin && ::access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  throw std::runtime_error(fmt::format("`{}` is not installed (package iproute2)", name));
}

// Runs a tool to its end. Throws std::runtime_error with its stderr if it fails.
void run_tool(const std::vector<std::string>& words) {
  std::vector<std::string> copy = words;
  const std::string file = find_tool(words.front());
  std::vector<char*> argv;
  for (auto& word : copy) argv.push_back(word.data());
  argv.push_back(nullptr);

  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;  // a separate process group, so that Ctrl-C reaches only us
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, file.c_str(), &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  std::string said;
  std::array<char, 512> buffer;
  ssize_t got = 0;
  while (error == 0 && ((got = ::read(ends[0], buffer.data(), buffer.size())) > 0 ||
                        (got < 0 && errno == EINTR))) {
    if (got > 0) said.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  if (error == 0) {
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  }
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot run {}: {}", file, std::strerror(error)));
  }
  if (status == 0) return;
  while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
  std::replace(said.begin(), said.end(), '\n', ' ');
  throw std::runtime_error(fmt::format("`{}` failed: {}", fmt::join(words, " "),
                                       said.empty() ? "no reason given" : said));
}

void ip(const std::string& where, std::vector<std::string> words) {
  std::vector<std::string> all{"ip", "-n", where};
  all.insert(all.end(), words.begin(), words.end());
  run_tool(all);
}

void limit(const std::string& where, const std::string& device, double bytes_per_second) {
  run_tool({"tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", "rate",
            fmt::format("{:.0f}bit", 8 * bytes_per_second), "burst",
            fmt::format("{:.0f}", token_bucket_bytes(bytes_per_second)), "latency", "20ms"});
}

// Makes every socket begin with the largest send buffer that the kernel allows. The size of a
// growing buffer depends on the connection's past, so a run of seconds would differ from a run of
// hours: the part of a message that fits into the buffer determines when a sending server is free
// for the next message. If the kernel refuses, the buffers stay as they are.
void fix_send_buffers(const std::string& network_namespace) {
  std::thread inside([&] {  // only this thread enters the namespace
    const int there = ::open(("/run/netns/" + network_namespace).c_str(), O_RDONLY | O_CLOEXEC);
    if (there >= 0 && ::setns(there, CLONE_NEWNET) == 0) {
      const std::string file = "/proc/sys/net/ipv4/tcp_wmem";
      long least = 0, first = 0, most = 0;
      if (std::ifstream(file) >> least >> first >> most) {
        std::ofstream(file) << fmt::format("{} {} {}", least, most, most) << std::endl;
      }
    }
    if (there >= 0) ::close(there);
  });
  inside.join();
}

bool process_exists(pid_t pid) {
  return ::kill(pid, 0) == 0 || errno != ESRCH;
}

}  // namespace

double token_bucket_bytes(double bytes_per_second) {
  return bytes_per_second <= 125e6 ? 256.0 * 1024 : 1024.0 * 1024;
}

double network_rate(const std::string& text) {
  if (text == "loopback") return 0;
  const bool short_form = text.size() > 3 && text.compare(text.size() - 3, 3, "bit") == 0;
  try {
    const double rate =
        parse_quantity(short_form ? text + "/s" : text, Dimension::bytes_per_second);
    if (rate >= 1e3) return rate;
    throw UnitError("a rate below 8 kbit/s");
  } catch (const UnitError& error) {
    throw file_error("", "--network", error.what(), "allowed: loopback, or a rate such as 1Gbit");
  }
}

void remove_stale_hosts() {
  std::vector<std::string> stale;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/run/netns", none)) {
    const std::string name = entry.path().filename();
    if (name.rfind(name_start, 0) != 0) continue;
    const pid_t pid = std::atoi(name.c_str() + std::strlen(name_start));
    if (pid > 0 && !process_exists(pid)) stale.push_back(name);
  }
  for (const auto& name : stale) {
    try {
      run_tool({"ip", "netns", "delete", name});
    } catch (const std::runtime_error&) {  // another run may clean up at the same time
    }
  }
}

LinkedHosts::LinkedHosts(int hosts, double bytes_per_second) {
  if (hosts < 2 || hosts > 200) {
    throw std::runtime_error(fmt::format("linked hosts: {} hosts; 2 to 200 are possible", hosts));
  }
  if (!(bytes_per_second >= 1e3)) throw std::runtime_error("linked hosts: rate below 1 kB/s");
  if (::geteuid() != 0) {
    throw std::runtime_error("rate-limited links need root (network namespaces, tc)");
  }
  remove_stale_hosts();
  static int made = 0;
  prefix_ = fmt::format("{}{}-{}", name_start, ::getpid(), made++);
  try {
    for (int rank = 0; rank < hosts; ++rank) {
      const std::string name = fmt::format("{}-host{}", prefix_, rank);
      add_namespace(name);
      hosts_.push_back({name, fmt::format("10.77.0.{}", rank + 1)});
    }
    if (hosts == 2) {
      join_pair(bytes_per_second);
    } else {
      join_by_bridge(bytes_per_second);
    }
  } catch (...) {
    remove();
    throw;
  }
}

LinkedHosts::~LinkedHosts() {
  remove();
}

void LinkedHosts::add_namespace(const std::string& name) {
  if (InterruptGuard::interrupted()) throw InterruptError();
  run_tool({"ip", "netns", "add", name});
  namespaces_.push_back(name);
  ip(name, {"link", "set", "lo", "up"});
  fix_send_buffers(name);
}

void LinkedHosts::join_pair(double bytes_per_second) {
  const std::string &a = hosts_[0].network_namespace, &b = hosts_[1].network_namespace;
  run_tool({"ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0",
            "netns", b});
  for (const auto& host : hosts_) {
    ip(host.network_namespace, {"addr", "add", host.address + "/24", "dev", "eth0"});
    ip(host.network_namespace, {"link", "set", "eth0", "up"});
    limit(host.network_namespace, "eth0", bytes_per_second);  // limit on sending
  }
}

void LinkedHosts::join_by_bridge(double bytes_per_second) {
  const std::string hub = prefix_ + "-switch";
  add_namespace(hub);
  ip(hub, {"link", "add", "bridge0", "type", "bridge"});
  ip(hub, {"link", "set", "bridge0", "up"});
  for (std::size_t rank = 0; rank < hosts_.size(); ++rank) {
    const LinkedHost& host = hosts_[rank];
    const std::string port = fmt::format("port{}", rank);
    run_tool({"ip", "link", "add", "eth0", "netns", host.network_namespace, "type", "veth", "peer",
              "name", port, "netns", hub});
    ip(host.network_namespace, {"addr", "add", host.address + "/24", "dev", "eth0"});
    ip(hub, {"link", "set", port, "master", "bridge0", "up"});
    ip(host.network_namespace, {"link", "set", "eth0", "up"});
    limit(host.network_namespace, "eth0", bytes_per_second);  // limit on sending
    limit(hub, port, bytes_per_second);                       // limit on receiving
  }
}

void LinkedHosts::remove() noexcept {
  // A link is removed with its namespace.
  for (const auto& name : namespaces_) {
    try {
      run_tool({"ip", "netns", "delete", name});
    } catch (const std::exception&) {  // the next run will remove it
    }
  }
  namespaces_.clear();
}

void LinkedHosts::place(std::vector<RankProcess>& ranks) const {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].network_namespace = hosts_.at(rank).network_namespace;
  }
}

std::string why_no_linked_hosts() {
  try {
    const LinkedHosts probe(2, 125e6);
    if (InterruptGuard::interrupted()) throw InterruptError();
    return "";
  } catch (const InterruptError&) {
    throw;
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace lockstep
