// The management library (libnvidia-ml.so.1) that torch counts devices with, where it is installed.
#include <stdio.h>
#include <stdlib.h>

int nvmlInit(void) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) {
    const char *text = getenv("PRETENDED_GPUS");
    *count = text ? atoi(text) : 1;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(size_t)(index + 1); return 0; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned length) {
    snprintf(text, length, "GPU-00000000-0000-0000-0000-0000000000%02x", (unsigned)((size_t)device - 1));
    return 0;
}
