// A CUDA runtime that computes nothing: cudaMalloc hands out address space, kernels return at once, events are
// counted. LD_PRELOADed (with a driver library of the same code), genuine PyTorch believes in one A100 and its caching
// allocator, streams, FSDP and DDP run as they are. For figures of memory and order, never of time.
//   STUB_EVENTS=done (default): an event is complete at once, the fastest GPU.
//   STUB_EVENTS=late: complete only when the host has synchronised with it or a later one, the slowest GPU.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#define __CUDA_RUNTIME_API_H_NO_INLINE__
#include <cuda_runtime_api.h>

#define OK return cudaSuccess
static __thread int device;
static uint64_t now = 1, reached = 0, handle_count = 0x1000, used;
static uint64_t capacity(void) {
  const char* s = getenv("STUB_MEMORY");
  return s ? strtoull(s, 0, 10) : 85899345920ull;
}
static int late(void) {
  static int v = -1;
  if (v < 0) {
    const char* s = getenv("STUB_EVENTS");
    v = s && !strcmp(s, "late");
  }
  return v;
}
static void* fresh(void) {
  return (void*)(__sync_fetch_and_add(&handle_count, 16));
}

// Device memory: address space from one reserved stretch.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define BASE 0x700000000000ull
#define SPAN (1ull << 42)
static uint64_t next_address = BASE;
static struct { uint64_t at, size; } blocks[1 << 20];
static int block_count;
static int on_device(const void* p) {
  return (uint64_t)p >= BASE && (uint64_t)p < BASE + SPAN;
}
cudaError_t cudaMalloc(void** p, size_t size) {
  pthread_mutex_lock(&lock);
  if (next_address == BASE &&
      mmap((void*)BASE, SPAN, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
           0) != (void*)BASE) {
    perror("stub");
    abort();
  }
  if (used + size > capacity()) {
    pthread_mutex_unlock(&lock);
    return cudaErrorMemoryAllocation;
  }
  *p = (void*)next_address;
  blocks[block_count].at = next_address;
  blocks[block_count++].size = size;
  used += size;
  next_address += (size + (2 << 20) - 1) >> 21 << 21;
  pthread_mutex_unlock(&lock);
  OK;
}
cudaError_t cudaFree(void* p) {
  pthread_mutex_lock(&lock);
  for (int i = block_count - 1; i >= 0; --i)
    if (blocks[i].at == (uint64_t)p) {
      used -= blocks[i].size;
      blocks[i] = blocks[--block_count];
      break;
    }
  pthread_mutex_unlock(&lock);
  reached = now;
  OK;
}
cudaError_t cudaMallocAsync(void** p, size_t size, cudaStream_t s) {
  return cudaMalloc(p, size);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  return cudaFree(p);
}
cudaError_t cudaMallocManaged(void** p, size_t size, unsigned f) {
  return cudaMalloc(p, size);
}
cudaError_t cudaMemGetInfo(size_t* f, size_t* t) {
  *t = capacity();
  *f = *t - used;
  OK;
}
static struct { char *at, *end; } pinned[1 << 16];
static int pinned_count;
static int on_host(const void* p) {
  for (int i = 0; i < pinned_count; ++i)
    if ((char*)p >= pinned[i].at && (char*)p < pinned[i].end) return 1;
  return 0;
}
cudaError_t cudaMallocHost(void** p, size_t size) {
  *p = calloc(1, size + 1);
  if (pinned_count < 1 << 16) {
    pinned[pinned_count].at = *p;
    pinned[pinned_count++].end = (char*)*p + size + 1;
  }
  OK;
}
cudaError_t cudaHostAlloc(void** p, size_t size, unsigned f) {
  return cudaMallocHost(p, size);
}
cudaError_t cudaFreeHost(void* p) {
  OK;
}
cudaError_t cudaHostRegister(void* p, size_t n, unsigned f) {
  OK;
}
cudaError_t cudaHostUnregister(void* p) {
  OK;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* a, const void* p) {
  memset(a, 0, sizeof *a);
  a->type = on_device(p) ? cudaMemoryTypeDevice
            : on_host(p) ? cudaMemoryTypeHost
                         : cudaMemoryTypeUnregistered;
  a->devicePointer = (void*)p;
  a->hostPointer = on_device(p) ? 0 : (void*)p;
  OK;
}
// Small copies move data (DDP sends bucket indices through the device); large ones would only fill the host's memory.
static void copy(void* to, const void* from, size_t n) {
  if (n <= 1 << 20 || (!on_device(to) && !on_device(from)))
    memmove(to, from, n);
  else if (!on_device(to))
    memset(to, 0, n);
}
cudaError_t cudaMemcpy(void* d, const void* s, size_t n, enum cudaMemcpyKind k) {
  copy(d, s, n);
  reached = now;
  OK;
}
cudaError_t cudaMemcpyAsync(void* d, const void* s, size_t n, enum cudaMemcpyKind k,
                            cudaStream_t t) {
  uint64_t r = reached;
  copy(d, s, n);
  reached = r;
  OK;
}
cudaError_t cudaMemcpy2DAsync(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h,
                              enum cudaMemcpyKind k, cudaStream_t t) {
  OK;
}
cudaError_t cudaMemcpyPeerAsync(void* d, int dd, const void* s, int sd, size_t n, cudaStream_t t) {
  OK;
}
cudaError_t cudaMemcpyToSymbol(const void* y, const void* s, size_t n, size_t o,
                               enum cudaMemcpyKind k) {
  OK;
}
cudaError_t cudaMemset(void* p, int v, size_t n) {
  if (n <= 1 << 20) memset(p, v, n);
  OK;
}
cudaError_t cudaMemsetAsync(void* p, int v, size_t n, cudaStream_t s) {
  return cudaMemset(p, v, n);
}
cudaError_t cudaGetSymbolAddress(void** p, const void* y) {
  return cudaMalloc(p, 4096);
}

// Devices.
cudaError_t cudaGetDeviceCount(int* n) {
  *n = 1;
  OK;
}
cudaError_t cudaGetDevice(int* d) {
  *d = device;
  OK;
}
cudaError_t cudaSetDevice(int d) {
  device = d;
  OK;
}
cudaError_t cudaDeviceSynchronize(void) {
  reached = now;
  OK;
}
cudaError_t cudaDeviceCanAccessPeer(int* c, int a, int b) {
  *c = 0;
  OK;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* l, int* g) {
  *l = 0;
  *g = -5;
  OK;
}
cudaError_t cudaDeviceGetPCIBusId(char* s, int n, int d) {
  snprintf(s, n, "0000:00:00.0");
  OK;
}
cudaError_t cudaDriverGetVersion(int* v) {
  *v = 13020;
  OK;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* p, int d) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "Stub A100");
  p->major = getenv("STUB_CC") ? atoi(getenv("STUB_CC")) : 8;
  p->minor = 0;
  p->totalGlobalMem = capacity();
  p->multiProcessorCount = 108;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 166912;
  p->sharedMemPerMultiprocessor = 167936;
  p->regsPerBlock = 65536;
  p->regsPerMultiprocessor = 65536;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->l2CacheSize = 40 << 20;
  p->maxBlocksPerMultiProcessor = 32;
  p->textureAlignment = 512;
  p->memoryBusWidth = 5120;
  p->unifiedAddressing = 1;
  p->concurrentKernels = 1;
  OK;
}
cudaError_t cudaDeviceGetAttribute(int* v, enum cudaDeviceAttr a, int d) {
  struct cudaDeviceProp p;
  cudaGetDeviceProperties(&p, d);
  *v = 0;
  switch (a) {
    case cudaDevAttrMultiProcessorCount:
      *v = 108;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *v = p.major;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *v = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *v = 2048;
      break;
    case cudaDevAttrWarpSize:
      *v = 32;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *v = 49152;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *v = 166912;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *v = 167936;
      break;
    case cudaDevAttrMaxGridDimX:
      *v = 2147483647;
      break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      *v = 65535;
      break;
    case cudaDevAttrMaxRegistersPerBlock:
      *v = 65536;
      break;
    case cudaDevAttrL2CacheSize:
      *v = 40 << 20;
      break;
    default:
      break;
  }
  OK;
}

// Kernels.
cudaError_t cudaLaunchKernel(const void* f, dim3 g, dim3 b, void** a, size_t m, cudaStream_t s) {
  OK;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** a) {
  OK;
}
cudaError_t __cudaGetKernel(cudaKernel_t* k, const void* f) {
  *k = (cudaKernel_t)f;
  OK;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 g, dim3 b, void** a, size_t m, cudaStream_t s) {
  OK;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void* d) {
  f(d);
  OK;
}
cudaError_t cudaStreamAddCallback(cudaStream_t s, cudaStreamCallback_t f, void* d, unsigned x) {
  f(s, cudaSuccess, d);
  OK;
}
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* a, const void* f) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  a->numRegs = 32;
  a->ptxVersion = a->binaryVersion = 80;
  OK;
}
cudaError_t cudaFuncSetAttribute(const void* f, enum cudaFuncAttribute a, int v) {
  OK;
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t k, enum cudaFuncAttribute a, int v,
                                            int d) {
  OK;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int b, size_t m) {
  *n = 2;
  OK;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f, int b,
                                                                   size_t m, unsigned x) {
  *n = 2;
  OK;
}
cudaError_t cudaGetLastError(void) {
  OK;
}
cudaError_t cudaPeekAtLastError(void) {
  OK;
}

// Streams and events.
cudaError_t cudaStreamCreate(cudaStream_t* s) {
  *s = fresh();
  OK;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned f) {
  *s = fresh();
  OK;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* s, unsigned f, int p) {
  *s = fresh();
  OK;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  OK;
}
cudaError_t cudaStreamGetPriority(cudaStream_t s, int* p) {
  *p = 0;
  OK;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus* c) {
  *c = cudaStreamCaptureStatusNone;
  OK;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, enum cudaStreamCaptureStatus* c,
                                     unsigned long long* i, cudaGraph_t* g,
                                     const cudaGraphNode_t** d, const cudaGraphEdgeData** e,
                                     size_t* n) {
  *c = cudaStreamCaptureStatusNone;
  if (i) *i = 0;
  OK;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* m) {
  OK;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  OK;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  reached = now;
  OK;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned f) {
  OK;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) {
  *e = calloc(1, 16);
  OK;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned f) {
  *e = calloc(1, 16);
  OK;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  OK;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  *(uint64_t*)e = __sync_add_and_fetch(&now, 1);
  OK;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned f) {
  return cudaEventRecord(e, s);
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  uint64_t t = *(uint64_t*)e;
  if (t > reached) reached = t;
  OK;
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  return late() && *(uint64_t*)e > reached ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* m, cudaEvent_t a, cudaEvent_t b) {
  *m = 0.001f;
  OK;
}

// The driver: every function returns 0.
int stub_driver(void) {
  return 0;
}
int cuDevicePrimaryCtxGetState(int d, unsigned* f, int* active) {
  if (f) *f = 0;
  *active = 1;
  return 0;
}
int cuDeviceGet(int* d, int o) {
  *d = o;
  return 0;
}
int cuCtxGetCurrent(void** c) {
  *c = (void*)8;
  return 0;
}
int cuGetErrorString(int e, const char** s) {
  *s = "stub";
  return 0;
}
#define D(n)    \
  int n(void) { \
    return 0;   \
  }
D(cuCtxSetCurrent)
D(cuDevicePrimaryCtxRetain) D(cuFuncGetAttribute) D(cuFuncSetAttribute) D(cuFuncSetCacheConfig)
    D(cuLaunchCooperativeKernel) D(cuLaunchKernel) D(cuLinkAddData_v2) D(cuLinkComplete)
        D(cuLinkCreate_v2) D(cuModuleGetFunction) D(cuModuleLoad) D(cuModuleLoadData)
            D(cuModuleLoadDataEx) D(cuModuleUnload) D(cuOccupancyMaxActiveBlocksPerMultiprocessor)
                D(cuPointerGetAttribute) D(cuTensorMapEncodeTiled)
                    D(cuInit) int cuDeviceGetAttribute(int* v, int a, int d) {
  *v = a == 75 ? 8 : 0;
  return 0;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* n, void** p, unsigned v,
                                             unsigned long long f,
                                             enum cudaDriverEntryPointQueryResult* r) {
  *p = (void*)stub_driver;
  if (!strcmp(n, "cuDevicePrimaryCtxGetState")) *p = (void*)cuDevicePrimaryCtxGetState;
  if (!strcmp(n, "cuCtxGetCurrent")) *p = (void*)cuCtxGetCurrent;
  if (!strcmp(n, "cuDeviceGet")) *p = (void*)cuDeviceGet;
  if (r) *r = cudaDriverEntryPointSuccess;
  OK;
}

// cuBLAS.
#define B(n)    \
  int n(void) { \
    return 0;   \
  }
int cublasCreate_v2(void** h) {
  *h = fresh();
  return 0;
}
int cublasGetMathMode(void* h, int* m) {
  *m = 0;
  return 0;
}
int cublasGetPointerMode_v2(void* h, int* m) {
  *m = 0;
  return 0;
}
B(cublasDestroy_v2)
B(cublasSetMathMode) B(cublasSetPointerMode_v2) B(cublasSetStream_v2) B(cublasSetWorkspace_v2)
    B(cublasSetSmCountTarget) B(cublasSgemm_v2) B(cublasSgemmEx) B(cublasGemmEx)
        B(cublasSgemmStridedBatched) B(cublasGemmStridedBatchedEx) B(cublasSgemv_v2)
            B(cublasSdot_v2) B(cublasDotEx) size_t cublasLtGetVersion(void) {
  return 130400;
}
int cublasLtMatmulDescCreate(void** d) {
  *d = fresh();
  return 0;
}
int cublasLtMatrixLayoutCreate(void** d) {
  *d = fresh();
  return 0;
}
int cublasLtMatmulPreferenceCreate(void** d) {
  *d = fresh();
  return 0;
}
B(cublasLtMatmul)
B(cublasLtMatmulDescDestroy) B(cublasLtMatmulDescSetAttribute) B(cublasLtMatmulPreferenceDestroy)
    B(cublasLtMatmulPreferenceSetAttribute) B(cublasLtMatrixLayoutDestroy)
        B(cublasLtMatrixLayoutSetAttribute) int cublasLtMatmulAlgoGetHeuristic(
            void* h, void* d, void* a, void* b, void* c, void* dd, void* p, int n, void* result,
            int* found) {
  memset(result, 0, 96);
  *found = 1;
  return 0;
}
