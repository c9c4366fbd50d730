#include "engine/gap.hpp"

#include "engine/range.hpp"

namespace lockstep {

LOCKSTEP_WIDE_VECTORS
std::size_t divide_together(std::span<const Window> windows, std::span<const double> ready,
                            std::span<const double> ranks, std::span<double> positions,
                            LaneSteps& steps, Gap& sum) {
  const std::size_t count = positions.size() - positions.size() % wide_lanes;
  if (count == 0) return 0;
  const double earliest = range_of(positions).smallest;
  std::size_t first = windows.size() - 1;  // of those that any lane may have stood still for
  while (first > 0 && windows[first - 1].end > earliest) --first;
  const Window& own = windows.back();
  const double before = windows.size() > 1 ? windows[windows.size() - 2].end : -never;
  const Wide nothing{}, start = own.start + nothing, end = own.end + nothing;
  const Wide earlier_end = before + nothing;
  Wide all_exposed{}, all_host_bound{}, all_waiting{};
  for (std::size_t lane = 0; lane < count; lane += wide_lanes) {
    const Wide from = *wide(&positions[lane]);
    Wide exposed{};
    for (std::size_t i = windows.size(); i-- > first;) {
      const Wide began = windows[i].start + nothing;
      const Wide part = windows[i].end - (began > from ? began : from);
      exposed += part > nothing ? part : nothing;
    }
    const Wide idle_from = earlier_end > from ? earlier_end : from;  // right before it started
    const Wide idle = start > idle_from ? start - idle_from : nothing;
    const Wide unissued = *wide(&ready[lane]) - idle_from;
    const Wide behind = unissued > nothing ? unissued : nothing;
    const Wide host_bound = behind < idle ? behind : idle;
    const Wide left = end - from - exposed - host_bound;
    const Wide waiting = left > nothing ? left : nothing;
    const Wide weight = *wide(&ranks[lane]);
    all_exposed += weight * exposed;
    all_host_bound += weight * host_bound;
    all_waiting += weight * waiting;
    *wide(&steps.communicating[lane]) += exposed;
    *wide(&steps.waiting[lane]) += waiting;
    *wide(&positions[lane]) = end > from ? end : from;
  }
  for (std::size_t k = 0; k < wide_lanes; ++k) {
    sum.exposed += all_exposed[k];
    sum.host_bound += all_host_bound[k];
    sum.waiting += all_waiting[k];
  }
  return count;
}

}  // namespace lockstep
