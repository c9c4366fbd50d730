// A program of the simulated world: a C++20 coroutine that awaits sleeps, bells, inboxes, flows
// (engine/executor.hpp) and other programs. Write one for each simulated host thread or server, and
// start it with Executor::start() or World::spawn():
//
//   Program worker(Executor& executor, Bell& ready) {
//     co_await executor.sleep_for(0.5);   // half a simulated second
//     co_await ready.rung();
//   }
//
// Parameters are stored in the coroutine's frame. A reference parameter must outlive the program.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "engine/frames.hpp"

namespace lockstep {

// Owns a coroutine. The destructor destroys the coroutine, wherever it waits. Movable, not
// copyable. An exception that leaves the coroutine is stored, and rethrown by the co_await of the
// program's caller or by the executor's run().
class [[nodiscard]] Program {
 public:
  struct promise_type {
    // The program that continues when this one returns; null = none.
    std::coroutine_handle<> caller;
    std::exception_ptr failure;

    Program get_return_object() {
      return Program(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    // At the end of the coroutine, control passes to the caller without growth of the stack.
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
    // Stores the exception; await_resume() or the executor rethrows it. If SimGrid kills an actor,
    // an exception arises in the actor's program and unwinds the chain of programs that await each
    // other.
    void unhandled_exception() { failure = std::current_exception(); }

    // Frames come from free lists (engine/frames.hpp).
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

  // Awaited by another program, as a subroutine: the program runs at once, up to its first wait.
  // The caller is suspended only if the program has not returned by then.
  bool await_ready() {
    handle_.resume();
    return handle_.done();
  }
  void await_suspend(std::coroutine_handle<> caller) { handle_.promise().caller = caller; }
  void await_resume() const { rethrow(); }

  // For executors only.
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
