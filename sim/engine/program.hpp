// A program of the simulated world: a C++20 coroutine that awaits sleeps, bells, queues, flows
// (engine/executor.hpp) and other programs. Write one per host thread or server and start it by
// Executor::start() or World::spawn().
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "engine/frames.hpp"

namespace lockstep {

class [[nodiscard]] Program {
 public:
  struct promise_type {
    std::coroutine_handle<> caller;  // program that continues when this one returns; null = none
    std::exception_ptr failure;

    Program get_return_object() {
      return Program(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Return {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        const std::coroutine_handle<> caller = self.promise().caller;
        return caller ? caller : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };
    Return final_suspend() noexcept { return {}; }
    void return_void() {}
    // Rethrown by await_resume() or finish(), so that killing an actor unwinds its programs.
    void unhandled_exception() { failure = std::current_exception(); }

    static void* operator new(std::size_t bytes) { return take_frame(bytes); }
    static void operator delete(void* frame, std::size_t bytes) { keep_frame(frame, bytes); }
  };

  Program() = default;
  Program(Program&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Program& operator=(Program&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Program() {
    if (handle_) handle_.destroy();
  }

  // Awaited by another program, as a subroutine: begins in place of the caller, and only a program
  // that did not return by then suspends it.
  bool await_ready() {
    handle_.resume();
    return handle_.done();
  }
  void await_suspend(std::coroutine_handle<> caller) { handle_.promise().caller = caller; }
  void await_resume() const { rethrow(); }

  // For executors.
  std::coroutine_handle<> handle() const { return handle_; }
  bool over() const { return handle_.done(); }
  void rethrow() const {
    if (handle_.promise().failure) std::rethrow_exception(handle_.promise().failure);
  }

 private:
  explicit Program(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace lockstep
