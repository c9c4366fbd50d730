// Extracts numbers, sizes in bytes and times from lines of logs, by the word in front of the value.
// The readers of all log formats (training_log.cpp) use it. A function with an optional result
// returns nothing if the line has no such value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

// The number after `key` in the line: "tps: 30,768", "elapsed_time_per_iteration_ms: 11.5K"
// (11500), "MaxMemAllocated=4.34GB" (4.34). The key must not be the end of a longer word. Commas
// between digits are ignored.
std::optional<double> number_after(std::string_view line, std::string_view key);
// Bytes after `key`: "9.46GiB", "547M" (MiB), "4.34GB" (GiB, as DeepSpeed and Megatron write it),
// "547" (MiB). Nothing unless the number is positive.
std::optional<double> bytes_after(std::string_view line, std::string_view key);
// The first date and time of the line ("2025-07-21 15:57:42,774", "10/17/2025 16:31:56") in seconds
// since 1970; time zones are ignored.
std::optional<double> clock_in(std::string_view line);
// A duration ("2:30:48", "3 days, 17:51:32") in seconds.
std::optional<double> duration_in(std::string_view text);

// Fields of a CSV line, without their quotes.
std::vector<std::string> csv_fields(std::string_view line);

}  // namespace lockstep
