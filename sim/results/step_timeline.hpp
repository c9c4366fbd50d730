// One step of one rank, drawn on the report's page: a lane per stream, with its work and its waits.
// timeline/ fills it; json_of() gives it to the page. Times are seconds since the step began on the
// device.
#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// Kinds of slices: work, a transfer, or a wait and its cause. Names are those of the parts of a
// step (step_parts.hpp) if the part exists.
enum class SliceKind {
  forward,
  backward,
  optimizer,
  copies,
  transfer,
  // Waits.
  exposed_communication,
  data_loading,
  waiting,
  copying,
  host_bound,
  updating,
  synchronising,
};
struct SliceKindText {
  std::string_view colour;   // --part-COLOUR of page.css
  std::string_view heading;  // as the key and a slice's description say it
};
inline constexpr std::array slice_kinds{
    SliceKindText{"forward", "forward"},
    SliceKindText{"backward", "backward"},
    SliceKindText{"optimizer", "optimizer"},
    SliceKindText{"copies", "copies"},
    SliceKindText{"transfer", "transfer"},
    SliceKindText{"exposed_communication", "waits for communication"},
    SliceKindText{"data_loading", "waits for input"},
    SliceKindText{"waiting", "waits for others"},
    SliceKindText{"copies", "waits for a copy"},
    SliceKindText{"host_bound", "waits for the host"},
    SliceKindText{"optimizer", "waits for the update"},
    SliceKindText{"synchronising", "host waits for the device"},
};
inline bool is_wait(SliceKind kind) {
  return kind >= SliceKind::exposed_communication;
}

struct TimelineSlice {
  SliceKind kind = SliceKind::forward;
  std::string name;
  double start = 0, end = 0;
  int merged = 1;           // operations and waits that it stands for; the name is the first's
  std::string last_name{};  // of several
};

struct TimelineLane {
  std::string name;                   // "compute", "gradients", "server 0: compute"
  std::vector<TimelineSlice> slices;  // ascending, none over another
  // Figures of the whole step, independent of the drawing. Waits are not busy.
  double busy_seconds = 0;
  int operations = 0;
  std::vector<TimelineSlice> longest{};  // at most three
};

struct StepTimeline {
  std::string strategy;
  int gpus = 1, rank = 0;
  int step = 0;  // 0 is the first
  double seconds = 0;
  std::vector<TimelineLane> lanes;
  bool host_is_done = false;  // it has issued all of the step before the step began
  int left_out = 0;           // ways to further servers, alike
  double merged_seconds = 0;  // neighbours shorter than this are drawn as one; 0 = none are
};

// Computes the figures of each lane, then merges neighbouring slices until there are at most
// `most`. First come slices of one kind that last and lie apart less than a 16384th of the step,
// then slices of any kind; the limit then doubles.
void thin_out(StepTimeline& timeline, std::size_t most);

// The form that the page's script reads. Each lane is {name, slices, ...}. A slice is five numbers:
// kind, name (index into `names`; "first … last" for several), nanoseconds since the end of the
// slice before, nanoseconds of its duration, and number of operations.
nlohmann::ordered_json json_of(const StepTimeline& timeline);

}  // namespace lockstep
