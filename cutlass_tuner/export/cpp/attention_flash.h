using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// The driver's, through the runtime: no -lcuda is needed. Null where the driver has none.
EncodeTiled encode_tiled() {
  static EncodeTiled const found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    cudaError_t const error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
#else
    cudaError_t const error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
    bool const there = error == cudaSuccess && result == cudaDriverEntryPointSuccess;
    return reinterpret_cast<EncodeTiled>(there ? function : nullptr);
  }();
  return found;
}

template <class K>
Status enqueue_flash(KernelRow const& kernel, Asked const& a, cudaStream_t stream) {
  namespace flash = cutlass_tuner::flash;
  Problem const& p = a.problem;
  flash::Call const call{p.batch, p.heads_q, p.heads_kv, p.seqlen_q, p.seqlen_kv, p.head_dim,
                         static_cast<flash::Causal>(p.causal), static_cast<flash::Layout>(p.layout),
                         a.q, a.k, a.v, a.o, a.lse, a.scale};
  flash::Launch const how{a.launch[0] == 1, a.launch[1] == 1, a.launch[2], a.sm_count};
  if (encode_tiled() == nullptr || !flash::can_implement<K>(call, how)) { return Status::kRefused; }
  flash::Params params;
  if (!flash::fill<K>(encode_tiled(), call, how, &params)) { return Status::kRefused; }
  return launch(kernel, dim3(flash::grid<K>(call, how)), &params, stream);
}

template <class K>
KernelRow flash_row(void (*function)(cutlass_tuner::flash::Params)) {
  return {reinterpret_cast<void const*>(function), unsigned(K::kThreads), unsigned(K::kSmemBytes), {1, 1, 1},
          &enqueue_flash<K>};
}
