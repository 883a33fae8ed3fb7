// A CUDA runtime for tests on machines without a GPU, loaded with LD_PRELOAD. Device memory is host memory, and kernels
// do nothing: host_kernels.py computes on the host instead. As with the real runtime, CUDA cannot be used in a child
// that was forked after its parent asked for it, and after a kernel failed every call fails in its process.
// PRETENDED_GPUS is the number of devices, 1 if unset; PRETENDED_MIB is the memory of each, 8192 if unset.
#define _GNU_SOURCE
#include <driver_types.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } Grid;

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, FORKED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, ASSERT = 710 };

static const int VERSION = 13020;
static __thread int current = 0;
static pid_t owner = 0;
static int lost = 0;
static size_t allocated = 0;

void pretended_cuda_lose(void) { lost = 1; }

static size_t memory(void) {
    const char *text = getenv("PRETENDED_MIB");
    return (text ? atoll(text) : 8192) << 20;
}

static int forked(void) {
    if (!owner) owner = getpid();
    return owner != getpid();
}
#define REFUSE if (forked()) return FORKED; if (lost) return ASSERT

static int present(void) {
    const char *text = getenv("PRETENDED_GPUS");
    return text ? atoi(text) : 1;
}

static int visible(void) {
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (!text) return present();
    int count = *text != 0;
    for (; *text; text++) count += *text == ',';
    return count < present() ? count : present();
}

// devices
int cudaGetDeviceCount(int *count) { REFUSE; *count = visible(); return *count ? SUCCESS : NO_DEVICE; }
int cudaGetDevice(int *device) { REFUSE; *device = current; return SUCCESS; }
int cudaSetDevice(int device) {
    REFUSE;
    if (device < 0 || device >= visible()) return INVALID_DEVICE;
    current = device;
    return SUCCESS;
}
int cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    REFUSE;
    if (device >= visible()) return INVALID_DEVICE;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "Pretended GPU");
    p->totalGlobalMem = memory();
    p->major = 9;
    p->warpSize = 32;
    p->multiProcessorCount = 1;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->sharedMemPerBlock = 48 << 10;
    p->regsPerMultiprocessor = 64 << 10;
    p->pciBusID = device + 1;
    p->uuid.bytes[15] = (char)device;
    return SUCCESS;
}
int cudaDeviceGetAttribute(int *value, int attribute, int device) { REFUSE; *value = 1; return SUCCESS; }
int cudaDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:%02x:00.0", device + 1);
    return SUCCESS;
}
int cudaDeviceSynchronize(void) { REFUSE; return SUCCESS; }
int cudaDeviceCanAccessPeer(int *able, int a, int b) { *able = 0; return SUCCESS; }
int cudaDeviceEnablePeerAccess(int peer, unsigned flags) { return SUCCESS; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return SUCCESS; }
int cudaDriverGetVersion(int *version) { *version = VERSION; return SUCCESS; }
int cudaRuntimeGetVersion(int *version) { *version = VERSION; return SUCCESS; }

// memory
int cudaMallocHost(void **block, size_t size) {
    REFUSE;
    size = size ? size : 512;
    if (posix_memalign(block, 512, size)) return OUT_OF_MEMORY;
    memset(*block, 0, size);
    return SUCCESS;
}
int cudaMalloc(void **block, size_t size) {
    if (allocated + size > memory()) return OUT_OF_MEMORY;
    int error = cudaMallocHost(block, size);
    if (!error) allocated += malloc_usable_size(*block);
    return error;
}
int cudaMallocAsync(void **block, size_t size, void *stream) { return cudaMalloc(block, size); }
int cudaMallocManaged(void **block, size_t size, unsigned flags) { return cudaMalloc(block, size); }
int cudaHostAlloc(void **block, size_t size, unsigned flags) { return cudaMallocHost(block, size); }
int cudaHostRegister(void *block, size_t size, unsigned flags) { return SUCCESS; }
int cudaHostUnregister(void *block) { return SUCCESS; }
int cudaFree(void *block) { if (block) allocated -= malloc_usable_size(block); free(block); return SUCCESS; }
int cudaFreeAsync(void *block, void *stream) { return cudaFree(block); }
int cudaFreeHost(void *block) { free(block); return SUCCESS; }
int cudaMemGetInfo(size_t *available, size_t *total) {
    REFUSE;
    *total = memory();
    *available = *total - allocated;
    return SUCCESS;
}
int cudaMemcpy(void *to, const void *from, size_t size, int kind) { REFUSE; memmove(to, from, size); return SUCCESS; }
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream) {
    return cudaMemcpy(to, from, size, kind);
}
int cudaMemcpyPeerAsync(void *to, int a, const void *from, int b, size_t size, void *stream) {
    return cudaMemcpy(to, from, size, 0);
}
int cudaMemset(void *to, int value, size_t size) { REFUSE; memset(to, value, size); return SUCCESS; }
int cudaMemsetAsync(void *to, int value, size_t size, void *stream) { return cudaMemset(to, value, size); }
int cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *block) {
    memset(attributes, 0, sizeof *attributes);
    return SUCCESS;
}

// streams and events
static int make(void **object) { *object = malloc(8); return SUCCESS; }
int cudaStreamCreate(void **stream) { return make(stream); }
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { return make(stream); }
int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority) { return make(stream); }
int cudaStreamDestroy(void *stream) { return SUCCESS; }
int cudaStreamGetPriority(void *stream, int *priority) { *priority = 0; return SUCCESS; }
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return SUCCESS; }
int cudaStreamGetCaptureInfo(void *stream, int *status, void *a, void *b, void *c, void *d, void *e) {
    *status = 0;
    return SUCCESS;
}
int cudaStreamQuery(void *stream) { return SUCCESS; }
int cudaStreamSynchronize(void *stream) { REFUSE; return SUCCESS; }
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { return SUCCESS; }
int cudaThreadExchangeStreamCaptureMode(int *mode) { return SUCCESS; }
int cudaEventCreate(void **event) { return make(event); }
int cudaEventCreateWithFlags(void **event, unsigned flags) { return make(event); }
int cudaEventDestroy(void *event) { return SUCCESS; }
int cudaEventRecord(void *event, void *stream) { return SUCCESS; }
int cudaEventRecordWithFlags(void *event, void *stream, unsigned flags) { return SUCCESS; }
int cudaEventQuery(void *event) { return SUCCESS; }
int cudaEventSynchronize(void *event) { return SUCCESS; }
int cudaEventElapsedTime(float *milliseconds, void *a, void *b) { *milliseconds = 0; return SUCCESS; }

// kernels
int cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function) {
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->binaryVersion = attributes->ptxVersion = 90;
    return SUCCESS;
}
int cudaFuncSetAttribute(const void *function, int attribute, int value) { return SUCCESS; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int size, size_t shared) {
    *blocks = 1;
    return SUCCESS;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *b, const void *f, int size, size_t s, unsigned flags) {
    *b = 1;
    return SUCCESS;
}
int cudaLaunchKernel(const void *f, Grid grid, Grid block, void **args, size_t shared, void *stream) { return SUCCESS; }
int cudaLaunchKernelExC(const void *config, const void *function, void **args) { return SUCCESS; }
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data) { function(data); return SUCCESS; }

// errors
int cudaGetLastError(void) { return SUCCESS; }
int cudaPeekAtLastError(void) { return SUCCESS; }
const char *cudaGetErrorName(int error) { return error == FORKED ? "cudaErrorInitializationError" : "cudaErrorUnknown"; }
const char *cudaGetErrorString(int error) {
    if (error == ASSERT) return "device-side assert triggered";
    return error == FORKED ? "initialization error" : error == OUT_OF_MEMORY ? "out of memory" : "unknown error";
}

static int succeed(void) { return SUCCESS; }
int cudaGetDriverEntryPointByVersion(const char *name, void **entry, unsigned version, unsigned long long f, int *status) {
    *entry = (void *)succeed;
    if (status) *status = 0;
    return SUCCESS;
}
