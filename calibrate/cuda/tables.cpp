// Writes measurements as tables for people: one table for each probe that has results. The column
// IQR is the interquartile range divided by the median, and n the number of samples.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/units.hpp"
#include "cuda/measurements.hpp"

namespace lockstep::cuda {

namespace {

std::string noise(const Figure& figure) {
  const double percent = figure.seconds > 0 ? 100 * figure.iqr_seconds / figure.seconds : 0;
  return fmt::format("{:5.1f}% {:4}", percent, figure.samples);
}

std::string share(double efficiency) {
  return efficiency > 0 ? fmt::format("{:5.1f}%", 100 * efficiency) : "    - ";
}

std::string seconds_text(double seconds) {
  return human(seconds, Dimension::seconds);
}

void gemm_table(const Measurements& m, std::string& text) {
  text +=
      fmt::format("\nMatrix products (cuBLAS)\n{:>5} {:>6} {:>6} {:>6} {:>10} {:>14} {:>7} {}\n",
                  "math", "m", "n", "k", "time", "achieved", "of peak", "   IQR    n");
  for (const GemmRow& r : m.gemm)
    text += fmt::format("{:>5} {:>6} {:>6} {:>6} {:>10} {:>14} {:>7} {}\n", enum_name(r.math), r.m,
                        r.n, r.k, seconds_text(r.time.seconds),
                        human(r.flops_per_second, Dimension::flops_per_second), share(r.efficiency),
                        noise(r.time));
}

void convolution_table(const Measurements& m, std::string& text) {
  text += fmt::format("\nConvolutions (cuDNN)\n{:>5} {:>16} {:>28} {:>10} {:>14} {:>7} {}\n",
                      "math", "pass", "batch x in x size > out k/s", "time", "achieved", "of peak",
                      "   IQR    n");
  for (const ConvolutionRow& r : m.convolution)
    text += fmt::format(
        "{:>5} {:>16} {:>28} {:>10} {:>14} {:>7} {}\n", enum_name(r.math), enum_name(r.pass),
        fmt::format("{}x{}x{} > {} {}/{}", r.batch, r.in_channels, r.size, r.out_channels, r.kernel,
                    r.stride),
        seconds_text(r.time.seconds), human(r.flops_per_second, Dimension::flops_per_second),
        share(r.efficiency), noise(r.time));
}

void copies_table(const Measurements& m, std::string& text) {
  text += fmt::format("\nCopies\n{:<13} {:>10} {:>10} {:>12} {}\n", "", "size", "time", "traffic",
                      "   IQR    n");
  for (const CopyRow& r : m.copies)
    text += fmt::format("{:<13} {:>10} {:>10} {:>12} {}\n", enum_name(r.kind),
                        human(r.bytes, Dimension::bytes), seconds_text(r.time.seconds),
                        human(r.bytes_per_second, Dimension::bytes_per_second), noise(r.time));
}

void launch_table(const LaunchFigures& l, std::string& text) {
  text += "\nKernel launches\n";
  const auto line = [&](const char* what, const Figure& figure) {
    text += fmt::format("{:<38} {:>10} {}\n", what, seconds_text(figure.seconds), noise(figure));
  };
  line("host time of one launch", l.enqueue);
  line("device time, empty kernel to the next", l.back_to_back);
  line("launch and wait", l.round_trip);
  line("two events with nothing between them", l.event_resolution);
}

void interference_table(const Measurements& m, std::string& text) {
  text += fmt::format(
      "\nComputation beside a collective's stand-in\n{:<28} {:>6} {:>10} {:>9} {:>10} {:>9}\n", "",
      "blocks", "alone", "slowdown", "stand-in", "slowdown");
  for (const InterferenceRow& r : m.interference)
    text += fmt::format("{:<28} {:>6} {:>10} {:>9.3f} {:>10} {:>9.3f}\n", r.compute, r.blocks,
                        seconds_text(r.compute_alone.seconds), compute_slowdown(r),
                        seconds_text(r.standin_alone.seconds), standin_slowdown(r));
}

void memory_table(const MemoryFigures& m, std::string& text) {
  text += "\nDevice memory\n";
  const auto line = [&](const std::string& what, double bytes) {
    text += fmt::format("{:<38} {:>10}\n", what, human(bytes, Dimension::bytes));
  };
  line("total", m.total_bytes);
  line(fmt::format("context ({})", m.source), m.context_bytes);
  line("cuBLAS handle", m.cublas_handle_bytes);
  if (m.nccl_communicator_bytes > 0) line("NCCL communicator", m.nccl_communicator_bytes);
}

}  // namespace

std::string measurements_tables(const Measurements& m) {
  std::string text = fmt::format("{} (device file: {})\n", m.title,
                                 m.device.empty() ? "none, peaks unknown" : m.device);
  if (m.memory.total_bytes > 0) memory_table(m.memory, text);
  if (!m.gemm.empty()) gemm_table(m, text);
  if (!m.convolution.empty()) convolution_table(m, text);
  if (!m.copies.empty()) copies_table(m, text);
  if (m.launch.enqueue.samples > 0) launch_table(m.launch, text);
  if (!m.interference.empty()) interference_table(m, text);
  std::set<Collective> seen;
  for (const CollectiveTiming& row : m.collectives)
    if (seen.insert(row.collective).second)
      text += "\n" + nccl_tests_table(m.collectives, row.collective);
  return text;
}

std::string nccl_tests_table(const std::vector<CollectiveTiming>& rows, Collective collective) {
  const bool sums =
      collective == Collective::all_reduce || collective == Collective::reduce_scatter;
  const bool rooted = collective == Collective::broadcast;
  std::string text = fmt::format("# {}\n", enum_name(collective));
  if (std::any_of(rows.begin(), rows.end(), [&](const CollectiveTiming& r) {
        return r.collective == collective && r.ranks == 1;
      }))
    text += "# one rank: NCCL only launches and copies; this is no bandwidth of any link\n";
  text += fmt::format(
      "#{:>12} {:>12} {:>8} {:>7} {:>6} {:>8} {:>7} {:>7} {:>6} {:>8} {:>7} {:>7} {:>6}\n", "size",
      "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
      "busbw", "#wrong");
  text += fmt::format(
      "#{:>12} {:>12} {:>8} {:>7} {:>6} {:>8} {:>7} {:>7} {:>6} {:>8} {:>7} {:>7} {:>6}\n", "(B)",
      "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
  for (const CollectiveTiming& r : rows) {
    if (r.collective != collective) continue;
    // If every rank has a part, nccl-tests counts the elements of one part.
    const bool parts =
        collective == Collective::all_gather || collective == Collective::reduce_scatter;
    const auto half = [&](const Figure& f, std::int64_t wrong) {
      if (f.samples == 0) return fmt::format("{:>8} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
      return fmt::format("{:>8.2f} {:>7.2f} {:>7.2f} {:>6}", f.seconds * 1e6,
                         r.bytes / f.seconds * 1e-9,
                         bus_bandwidth(collective, r.ranks, r.bytes, f.seconds) * 1e-9, wrong);
    };
    text += fmt::format(" {:>12.0f} {:>12.0f} {:>8} {:>7} {:>6} {} {}\n", r.bytes,
                        r.bytes / 4 / (parts ? r.ranks : 1), "float", sums ? "sum" : "none",
                        rooted ? 0 : -1, half(r.out_of_place, r.wrong_out_of_place),
                        half(r.in_place, r.wrong_in_place));
  }
  return text;
}

}  // namespace lockstep::cuda
