// Reads a file, and unpacks it with zlib if it is compressed by gzip (RFC 1952). It works in
// chunks, because zlib counts bytes in 32 bits and traces may be longer. It refuses a file as soon
// as its text exceeds the limit, so that the text of a small file cannot fill the memory.
#include "imports/unpacked_text.hpp"

#include <zlib.h>

#include <algorithm>

#include "core/errors.hpp"
#include "core/file_text.hpp"

namespace lockstep {
namespace {

// zlib's state, released at the end of the scope.
struct Inflater {
  z_stream stream{};
  Inflater() { inflateInit2(&stream, 16 + MAX_WBITS); }  // 16: expects gzip's header and checksum
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

std::string unpacked_text(const std::string& path) {
  std::string packed = file_text(path, most_of_a_recording);
  if (!packed.starts_with("\x1f\x8b")) return packed;
  constexpr std::size_t chunk = std::size_t{1} << 20;
  Inflater inflater;
  std::string text;
  std::size_t taken = 0, made = 0;
  while (true) {
    const std::size_t offered = std::min(chunk, packed.size() - taken);
    text.resize(made + chunk);
    inflater.stream.next_in = reinterpret_cast<Bytef*>(packed.data() + taken);
    inflater.stream.avail_in = static_cast<uInt>(offered);
    inflater.stream.next_out = reinterpret_cast<Bytef*>(text.data() + made);
    inflater.stream.avail_out = static_cast<uInt>(chunk);
    const int status = inflate(&inflater.stream, Z_NO_FLUSH);
    taken += offered - inflater.stream.avail_in;
    made += chunk - inflater.stream.avail_out;
    if (made > most_of_a_recording) refuse_too_large(path, most_of_a_recording);
    // Several gzip files, one directly after the other, form one valid file.
    if (status == Z_STREAM_END) {
      if (taken == packed.size()) break;
      inflateReset(&inflater.stream);
    } else if (status == Z_BUF_ERROR) {
      throw file_error(path, "", "its compressed data breaks off", "was it written to the end?");
    } else if (status != Z_OK) {
      throw file_error(path, "", "its compressed data is damaged", "gzip --test says where");
    }
  }
  text.resize(made);
  return text;
}

}  // namespace lockstep
