// Stand-ins for Gloo's headers, which PyTorch's wheels leave out although ProcessGroupGloo.hpp
// includes them. LibTorch 2 has Gloo inside; we only hold pointers to these classes and hand them
// on, so names are enough. Never call anything here: the layouts are not Gloo's. LibTorch 1.13 does
// not see this folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gloo {

struct Context {
  void setTimeout(std::chrono::milliseconds);
};

namespace transport {
class Device;
struct UnboundBuffer {
  virtual ~UnboundBuffer();
};
}  // namespace transport

namespace rendezvous {
struct Store {
  virtual ~Store();
  virtual void set(const std::string&, const std::vector<char>&) = 0;
  virtual std::vector<char> get(const std::string&) = 0;
  virtual void wait(const std::vector<std::string>&) = 0;
  virtual void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) = 0;
};
}  // namespace rendezvous

}  // namespace gloo
