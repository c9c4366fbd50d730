// Appends rows to a part file and sorts them into the final file. Only the offset of each row is in
// memory, so a sweep of millions of rows needs little memory. A lock prevents a second program from
// writing to the same file.
#include "sweep/rows_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <stdexcept>

#include "core/file_text.hpp"
#include "core/output.hpp"

namespace lockstep {

namespace {

// Throws OutputError with the system's reason.
[[noreturn]] void cannot(const std::string& action, const std::string& file) {
  throw OutputError(fmt::format("cannot {} {}: {}", action, file, std::strerror(errno)));
}

void write_all(int fd, const std::string& text, const std::string& file) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) cannot("write", file);
    done += static_cast<std::size_t>(n);
  }
}

// Calls use(line with its newline, place) for each complete line. Returns the end of the last one.
template <class Use>
std::size_t for_each_line(const std::string& file, Use&& use) {
  std::ifstream stream(file, std::ios::binary);
  std::size_t place = 0;
  for (std::string line; std::getline(stream, line) && !stream.eof();) {
    line += '\n';
    use(line, place);
    place += line.size();
  }
  return place;
}

// Reads the head of a row of `file`. Throws ConfigError if the line is no row.
RowHead head_of(const std::string& line, const std::string& file) {
  try {
    return read_row(line);
  } catch (const std::invalid_argument&) {
    throw file_error(file, "", "holds something else than rows of a sweep",
                     "choose another name for the result");
  }
}

}  // namespace

RowsFile::RowsFile(const std::string& file, const std::string& digest,
                   std::vector<std::size_t> numbers, bool retry_failed)
    : file_(file), part_(file + ".part"), digest_(digest), numbers_(std::move(numbers)) {
  if (file_.empty()) {
    // If there is no name, use a scratch file, which the system removes when it is closed.
    std::FILE* scratch = std::tmpfile();
    if (scratch == nullptr) cannot("make", "a scratch file");
    fd_ = ::fcntl(::fileno(scratch), F_DUPFD_CLOEXEC, 0);
    std::fclose(scratch);
    return;
  }
  std::error_code error;
  const auto target = std::filesystem::status(file_, error);
  if (std::filesystem::exists(target) && !std::filesystem::is_regular_file(target)) {
    throw file_error(file_, "", "is no plain file: a sweep continues from its own file",
                     "name a file, or leave -o out for stdout");
  }
  fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) cannot("write", part_);
  // An exclusive lock; the system releases it when the program ends in any way.
  struct flock lock {};
  lock.l_type = F_WRLCK;
  if (::fcntl(fd_, F_SETLK, &lock) != 0) {
    ::close(fd_);
    throw file_error(part_, "", "another sweep writes to it now",
                     "wait for it, or choose another name for the result");
  }
  // If the rows of FILE belong to another sweep, remove the part file, provided that this call has
  // created it.
  const bool fresh = ::lseek(fd_, 0, SEEK_END) == 0;
  try {
    take_up(retry_failed);
  } catch (...) {
    if (fresh) ::unlink(part_.c_str());
    ::close(fd_);
    throw;
  }
}

RowsFile::~RowsFile() {
  if (fd_ >= 0) ::close(fd_);
}

void RowsFile::take_up(bool retry_failed) {
  const std::set<std::size_t> wanted(numbers_.begin(), numbers_.end());
  // Whether a row counts. Throws ConfigError if it belongs to another sweep.
  const auto belongs = [&](const RowHead& head, const std::string& file) {
    if (head.digest != digest_ || !wanted.count(head.number)) {
      throw file_error(file, "",
                       "holds rows of another sweep: its scenario, settings, shard or program "
                       "differ",
                       "choose another name for the result, or remove the file");
    }
    return !retry_failed || head.kind != RowKind::failed;
  };
  end_ = static_cast<std::size_t>(std::max<off_t>(0, ::lseek(fd_, 0, SEEK_END)));
  // If there is no part file, FILE itself may have the rows of a complete run. They are copied.
  if (end_ == 0) {
    for_each_line(file_, [&](const std::string& line, std::size_t) {
      const RowHead head = head_of(line, file_);
      if (belongs(head, file_)) append(head.number, line);
    });
    return;
  }
  std::string text(end_, '\0');
  for (std::size_t read = 0; read < end_;) {
    const ssize_t n = ::pread(fd_, text.data() + read, end_ - read, static_cast<off_t>(read));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) cannot("read", part_);
    read += static_cast<std::size_t>(n);
  }
  std::size_t place = 0;
  for (std::size_t newline = 0; (newline = text.find('\n', place)) != std::string::npos;) {
    const std::string line = text.substr(place, newline + 1 - place);
    const RowHead head = head_of(line, part_);
    if (belongs(head, part_)) remember(head.number, place, line);
    place = newline + 1;
  }
  end_ = place;  // drop an incomplete last line, written when the program was killed
  if (::ftruncate(fd_, static_cast<off_t>(end_)) != 0) cannot("write", part_);
}

std::vector<std::size_t> RowsFile::missing() const {
  std::vector<std::size_t> list;
  for (const std::size_t number : numbers_) {
    if (!rows_.count(number)) list.push_back(number);
  }
  return list;
}

void RowsFile::append(std::size_t number, const std::string& line) {
  if (::lseek(fd_, static_cast<off_t>(end_), SEEK_SET) < 0) cannot("write", part_);
  write_all(fd_, line, part_);
  remember(number, end_, line);
  end_ += line.size();
}

void RowsFile::sync() {
  if (!file_.empty()) ::fdatasync(fd_);
}

void RowsFile::remember(std::size_t number, std::size_t offset, const std::string& line) {
  rows_[number] = {offset, line.size(), kind_of(line), fits_into_memory(line)};
}

std::string RowsFile::line(std::size_t number) const {
  const std::size_t place = rows_.at(number).offset, size = rows_.at(number).size;
  std::string text(size, '\0');
  for (std::size_t read = 0; read < size;) {
    const ssize_t n =
        ::pread(fd_, text.data() + read, size - read, static_cast<off_t>(place + read));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) cannot("read", part_);
    read += static_cast<std::size_t>(n);
  }
  return text;
}

void RowsFile::write(const std::string& file, bool csv) const {
  if (file.empty()) return put(csv, [](const std::string& bundle) { print(bundle); });
  write_whole(file, [&](const std::string& draft) {
    const int out = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (out < 0) cannot("write", file);
    bool synced = false;
    try {
      put(csv, [&](const std::string& bundle) { write_all(out, bundle, file); });
      synced = ::fsync(out) == 0 || errno == EINVAL;  // a pipe cannot be synced
    } catch (...) {
      ::close(out);
      throw;
    }
    if (::close(out) != 0 || !synced) cannot("write", file);
  });
}

void RowsFile::put(bool csv, const std::function<void(const std::string&)>& write) const {
  std::string bundle;
  const auto flush = [&] {
    write(bundle);
    bundle.clear();
  };
  for (const auto& [number, place] : rows_) {
    const std::string text = line(number);
    if (csv && number == rows_.begin()->first) bundle += csv_header(text);
    bundle += csv ? csv_row(text) : text;
    if (bundle.size() > 1 << 20) flush();
  }
  flush();
}

void RowsFile::finish(bool csv) {
  write(file_, csv);
  if (!file_.empty()) ::unlink(part_.c_str());
}

RowsFile::Counts RowsFile::counts() const {
  Counts counts;
  for (const auto& [number, place] : rows_) {
    counts.answers += place.kind == RowKind::answer ? 1 : 0;
    counts.refused += place.kind == RowKind::refused ? 1 : 0;
    counts.failed += place.kind == RowKind::failed ? 1 : 0;
    counts.fitting += place.fits ? 1 : 0;
    if (place.kind != RowKind::answer && counts.first_reason.empty()) {
      counts.first_reason = reason_of(line(number));
    }
  }
  return counts;
}

void merge_rows(const std::vector<std::string>& files, const std::string& output, bool csv) {
  // The file that contains each row, for messages.
  std::map<std::size_t, std::string> seen;
  std::string digest;
  std::size_t all = 0;
  std::unique_ptr<RowsFile> merged;
  for (const std::string& file : files) {
    opened_file(file);  // throws if the file cannot be read
    for_each_line(file, [&](const std::string& line, std::size_t) {
      const RowHead head = head_of(line, file);
      if (!merged) {
        digest = head.digest;
        all = head.all;
        std::vector<std::size_t> numbers(all);
        for (std::size_t i = 0; i < all; ++i) numbers[i] = i;
        merged = std::make_unique<RowsFile>("", digest, numbers);
      }
      if (head.digest != digest) {
        throw file_error(file, "", fmt::format("is of another sweep than {}", files.front()),
                         "merge the shards of one sweep, made by one version of the program");
      }
      if (!seen.emplace(head.number, file).second) {
        throw file_error(file, "",
                         fmt::format("row {} stands in {}, too", head.number, seen[head.number]),
                         "name each shard once");
      }
      merged->append(head.number, line);
    });
  }
  if (!merged) throw file_error(files.front(), "", "holds no rows");
  if (const auto missing = merged->missing(); !missing.empty()) {
    throw file_error("", "--merge",
                     fmt::format("{} of {} rows are missing, the first is row {}", missing.size(),
                                 all, missing.front()),
                     "name all shards, and run unfinished shards again");
  }
  merged->write(output, csv);
}

}  // namespace lockstep
