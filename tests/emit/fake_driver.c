/* Stands in for libcuda: writes what it is asked to encode, one line a descriptor. */
#include <stdio.h>
#include <stdlib.h>

int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, unsigned long long const* shape,
                           unsigned long long const* strides, unsigned const* box, unsigned const* element_strides,
                           int interleave, int swizzle, int promotion, int fill) {
  (void)map, (void)type, (void)element_strides, (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  FILE* log = fopen(getenv("FAKE_DRIVER_LOG"), "a");
  fprintf(log, "%llu %llu %llu %llu %u %u\n", (unsigned long long)address, shape[0], shape[1], rank > 1 ? strides[0] : 0,
          box[0], box[1]);
  fclose(log);
  return getenv("FAKE_DRIVER_REFUSES") ? 1 : 0;
}
