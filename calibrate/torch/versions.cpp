// Finds the versions of LibTorch, oneDNN and the loaded BLAS. The BLAS is searched among the loaded
// libraries, because LibTorch does not report it.
#include "torch/versions.hpp"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <link.h>
#include <torch/version.h>

#include <filesystem>
#include <regex>
#include <string>

namespace lockstep {

namespace {

// Finds the file of the loaded BLAS, with its folder ("openblas-pthread/libblas.so.3"), because
// Debian's alternatives of the BLAS differ only by folder.
int find_blas(dl_phdr_info* info, std::size_t, void* found) {
  const std::string loaded = info->dlpi_name;
  const std::string name = loaded.substr(loaded.rfind('/') + 1);
  if (name.find("blas") == std::string::npos || name.find("cublas") != std::string::npos) return 0;
  std::error_code error;
  const auto file = std::filesystem::canonical(loaded, error);
  if (error) return 0;
  auto& text = *static_cast<std::string*>(found);
  // A thin libblas.so may load OpenBLAS, which then does the computing.
  if (!text.empty() && name.find("openblas") == std::string::npos) return 0;
  text = (file.parent_path().filename() / file.filename()).string();
  return 0;
}

}  // namespace

std::vector<ProfileVersion> library_versions() {
  std::vector<ProfileVersion> versions{{"libtorch", TORCH_VERSION}};
  // "Intel(R) MKL-DNN v2.6.3 (Git Hash N/A)"
  const std::string onednn = at::get_mkldnn_version();
  std::smatch match;
  if (std::regex_search(onednn, match, std::regex("v([0-9.]+)"))) {
    versions.push_back({"onednn", match[1]});
  }
  std::string blas;
  if (at::hasMKL()) {  // PyTorch's wheels contain MKL in libtorch_cpu.so
    // "Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for ..."
    const std::string mkl = at::get_mkl_version();
    blas = std::regex_search(mkl, match, std::regex("Version ([0-9.]+)")) ? "mkl " + match.str(1)
                                                                          : "mkl";
  } else {
    ::dl_iterate_phdr(find_blas, &blas);
  }
  if (!blas.empty()) versions.push_back({"blas", blas});
  return versions;
}

void adapt_to_library([[maybe_unused]] StepOptions& options) {
#if TORCH_VERSION_MAJOR < 2
  options.fused_attention = false;
#endif
}

}  // namespace lockstep
