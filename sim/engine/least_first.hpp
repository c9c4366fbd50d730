// A min-queue (priority queue whose top is the least item) for items that mostly arrive in
// ascending order. Items in order enter a FIFO; only items out of order cost the work of a heap.
// Flows over one route are mostly in order, because a later flow of equal size finishes later.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep {

// Items are ordered by `<`, and no two are equal.
template <class Item>
class LeastFirst {
 public:
  bool empty() const { return heap_.empty() && first_ == line_.size(); }

  void push(Item item) {
    if (first_ == line_.size() || line_.back() < item) {
      line_.push_back(std::move(item));
    } else {
      heap_.push_back(std::move(item));
      std::push_heap(heap_.begin(), heap_.end(), Later());
    }
  }

  // REQUIRES: the queue is not empty.
  const Item& top() const { return in_line() ? line_[first_] : heap_.front(); }

  // Removes the top. If more than half of `line_` are taken items, the others move to its front.
  void pop() {
    if (!in_line()) {
      std::pop_heap(heap_.begin(), heap_.end(), Later());
      heap_.pop_back();
    } else if (2 * ++first_ > line_.size()) {
      line_.erase(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
  }

 private:
  struct Later {
    bool operator()(const Item& a, const Item& b) const { return b < a; }
  };
  bool in_line() const {
    return heap_.empty() || (first_ < line_.size() && line_[first_] < heap_.front());
  }

  std::vector<Item> line_;  // FIFO from first_ on, ascending
  std::size_t first_ = 0;
  std::vector<Item> heap_;  // items that arrived out of order
};

}  // namespace lockstep
