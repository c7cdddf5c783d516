/* The C face of exported kernels, computed on a CPU: what a PyTorch module hands over is what it is given. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kWorkspace = 4096 };

static int calls = 0, refuse = 0;
int stub_calls(void) { return calls; }
void stub_refuse(int status) { refuse = status; }
char const* ct_export_status(int status) { return status == 4 ? "refused by the stub" : "success"; }

/* A workspace that is not there, or too small, ends the process. */
static int begin(void* workspace, void* stream) {
  memset(workspace, 0x5a, kWorkspace);
  if (stream != NULL) { abort(); }
  ++calls;
  return refuse;
}

long long ct_export_workspace(int64_t m, int64_t n, int64_t k, int64_t batch, char const* layout) {
  return m * n * k * batch > 0 && strlen(layout) == 2 ? kWorkspace : -1;
}

int ct_export_run(int64_t m, int64_t n, int64_t k, int64_t batch, char const* layout, _Float16 const* a,
                  _Float16 const* b, _Float16* d, float alpha, void* workspace, void* stream) {
  int const status = begin(workspace, stream);
  for (int64_t i = 0; i < batch * m * n && status == 0; ++i) {
    int64_t const l = i / (m * n), row = i / n % m, column = i % n;
    float sum = 0.0f;
    for (int64_t x = 0; x < k; ++x) {
      int64_t const at_a = l * m * k + (layout[0] == 't' ? row * k + x : x * m + row);
      int64_t const at_b = l * k * n + (layout[1] == 't' ? x * n + column : column * k + x);
      sum += (float)a[at_a] * (float)b[at_b];
    }
    d[i] = (_Float16)(alpha * sum);
  }
  return status;
}

long long ct_export_attention_workspace(int64_t const* dims, char const* layout) {
  return dims[6] >= 0 && dims[6] <= 2 && strlen(layout) == 4 ? kWorkspace : -1;
}

static int64_t row_at(int64_t const* dims, int bshd, int64_t heads, int64_t seqlen, int64_t batch, int64_t head,
                      int64_t row) {
  return (bshd ? (batch * seqlen + row) * heads + head : (batch * heads + head) * seqlen + row) * dims[5];
}

int ct_export_attention_run(int64_t const* dims, char const* layout, _Float16 const* q, _Float16 const* k,
                            _Float16 const* v, _Float16* o, float* lse, float scale, void* workspace, void* stream) {
  int64_t const batches = dims[0], heads = dims[1], heads_kv = dims[2], rows = dims[3], keys = dims[4], dim = dims[5];
  int const status = begin(workspace, stream), bshd = layout[1] == 's';
  for (int64_t i = 0; i < batches * heads * rows && status == 0; ++i) {
    int64_t const batch = i / (heads * rows), head = i / rows % heads, row = i % rows;
    int64_t const seen = dims[6] == 0 ? keys : row + 1 + (dims[6] == 1 ? keys - rows : 0);
    int64_t const at = row_at(dims, bshd, heads, rows, batch, head, row);
    float most = -INFINITY, sum = 0.0f, out[256] = {0.0f};
    for (int64_t j = 0; j < keys && j < seen; ++j) {
      int64_t const at_kv = row_at(dims, bshd, heads_kv, keys, batch, head / (heads / heads_kv), j);
      float score = 0.0f;
      for (int64_t x = 0; x < dim; ++x) { score += (float)q[at + x] * (float)k[at_kv + x]; }
      float const top = fmaxf(most, scale * score), less = expf(most - top), p = expf(scale * score - top);
      most = top;
      sum = less * sum + p;
      for (int64_t x = 0; x < dim; ++x) { out[x] = less * out[x] + p * (float)v[at_kv + x]; }
    }
    for (int64_t x = 0; x < dim; ++x) { o[at + x] = (_Float16)(sum > 0.0f ? out[x] / sum : 0.0f); }
    lse[i] = most + logf(sum);
  }
  return status;
}
