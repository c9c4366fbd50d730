// HTTP on this machine's loopback interface.
#pragma once

#include <functional>

#include "explorer/explorer.hpp"

namespace lockstep {

// Answers until the process is told to end (Ctrl-C, SIGTERM: exit code 0). Each question is a child
// process, which ends when the connection that asked is closed. `port` 0 takes any that is free;
// `ready` hears which. Throws OutputError when the port cannot be had.
[[noreturn]] void serve(const Explorer& explorer, int port, const std::function<void(int)>& ready);

}  // namespace lockstep
