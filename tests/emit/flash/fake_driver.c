/* Stands in for libcuda: writes each tensor map that it is asked to encode, a line each:
   address type swizzle anything-else | extents | strides | box. */
#include <stdio.h>
#include <stdlib.h>

int cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, unsigned long long const* shape,
                           unsigned long long const* strides, unsigned const* box, unsigned const* element_strides,
                           int interleave, int swizzle, int promotion, int fill) {
  (void)map, (void)promotion;
  FILE* log = fopen(getenv("FAKE_DRIVER_LOG"), "a");
  fprintf(log, "%llu %d %d %d |", (unsigned long long)address, type, swizzle, interleave | fill);
  for (unsigned i = 0; i < rank; i++) fprintf(log, " %llu", element_strides[i] == 1 ? shape[i] : 0);
  fprintf(log, " |");
  for (unsigned i = 0; i + 1 < rank; i++) fprintf(log, " %llu", strides[i]);
  fprintf(log, " |");
  for (unsigned i = 0; i < rank; i++) fprintf(log, " %u", box[i]);
  fprintf(log, "\n");
  fclose(log);
  return getenv("FAKE_DRIVER_REFUSES") ? 1 : 0;
}
