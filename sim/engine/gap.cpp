// Divides lanes' idle time into waiting, communication and host-bound time, several lanes at once.
// The result equals Communicator::idle_before() lane by lane, but vector operations without
// branches compute it, because this loop runs over thousands of jittered lanes at every wait.
#include "engine/gap.hpp"

#include "engine/range.hpp"

namespace lockstep {

// Advances each lane's clock (`now`) through the windows. Idle time before a window has two parts:
// until `ready` the lane's own host is late, then the lane waits for other lanes. Only exposed and
// host-bound time are summed; waiting is the rest of the idle time.
LOCKSTEP_WIDE_VECTORS
std::size_t divide_together(const CollectiveWindows& collectives, std::size_t first,
                            std::size_t last, std::span<const double> ranks,
                            std::span<double> positions, LaneSteps& steps, Gap& sum) {
  const std::size_t count = positions.size() - positions.size() % wide_lanes;
  if (count == 0) return 0;
  const std::span<const Window> windows = collectives.between(first, last);
  std::vector<const double*> ready;
  for (std::size_t serial = first; serial <= last; ++serial) {
    ready.push_back(collectives.collective(serial).state->ready.data());
  }
  const Wide nothing{};
  Wide all_exposed{}, all_host_bound{}, all_waiting{};
  for (std::size_t lane = 0; lane < count; lane += wide_lanes) {
    const Wide from = *wide(&positions[lane]);
    Wide exposed{}, host_bound{}, now = from;
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const Wide start = windows[i].start + nothing, end = windows[i].end + nothing;
      // If a window begins when the previous window ends, there is no idle time to divide.
      if (i == 0 || windows[i].start > windows[i - 1].end) {
        const Wide idle = start > now ? start - now : nothing;
        const Wide unissued = *wide(ready[i] + lane) - now;
        const Wide behind = unissued > nothing ? unissued : nothing;
        host_bound += behind < idle ? behind : idle;
      }
      const Wide part = end - (start > now ? start : now);
      exposed += part > nothing ? part : nothing;
      now = end > now ? end : now;
    }
    const Wide left = now - from - exposed - host_bound;
    const Wide waiting = left > nothing ? left : nothing;
    const Wide weight = *wide(&ranks[lane]);
    all_exposed += weight * exposed;
    all_host_bound += weight * host_bound;
    all_waiting += weight * waiting;
    *wide(&steps.communicating[lane]) += exposed;
    *wide(&steps.waiting[lane]) += waiting;
    *wide(&positions[lane]) = now;
  }
  for (std::size_t k = 0; k < wide_lanes; ++k) {
    sum.exposed += all_exposed[k];
    sum.host_bound += all_host_bound[k];
    sum.waiting += all_waiting[k];
  }
  return count;
}

}  // namespace lockstep
