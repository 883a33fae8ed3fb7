// The CUDA driver that torch loads by name (libcuda.so.1); the runtime in runtime.c does not call it.
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13020; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "unknown error"; return 0; }

#define SUCCEED(name) int name() { return 0; }
SUCCEED(cuCtxGetCurrent)
SUCCEED(cuCtxSetCurrent)
SUCCEED(cuDeviceGet)
SUCCEED(cuDeviceGetAttribute)
SUCCEED(cuDevicePrimaryCtxRetain)
SUCCEED(cuLaunchCooperativeKernel)
SUCCEED(cuLaunchKernel)
SUCCEED(cuLinkAddData_v2)
SUCCEED(cuLinkComplete)
SUCCEED(cuLinkCreate_v2)
SUCCEED(cuModuleGetFunction)
SUCCEED(cuModuleLoad)
SUCCEED(cuModuleLoadData)
SUCCEED(cuModuleLoadDataEx)
SUCCEED(cuModuleUnload)
SUCCEED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
SUCCEED(cuPointerGetAttribute)
SUCCEED(cuTensorMapEncodeTiled)
