template <class Kernel>
Status enqueue_example88(KernelRow const& kernel, Asked const& a, cudaStream_t stream) {
  namespace example88 = cutlass_tuner::example88;
  Problem const& p = a.problem;
  example88::Call const call{p.batch, p.heads_q, p.heads_kv, p.seqlen_q, p.seqlen_kv, p.head_dim,
                             int(p.causal), p.layout == Layout::kBHSD, a.q, a.k, a.v, a.o, a.lse, a.scale, a.sm_count};
  if (!example88::can_implement<Kernel>(call)) { return Status::kRefused; }
  auto const arguments = example88::arguments<Kernel>(call);
  if (!Kernel::can_implement(arguments)) { return Status::kRefused; }
  typename Kernel::Params params = Kernel::to_underlying_arguments(arguments, nullptr);
  dim3 const grid = Kernel::get_grid_shape(params);
  constexpr unsigned kMostYZ = 65535;
  if (grid.y > kMostYZ || grid.z > kMostYZ) { return Status::kRefused; }
  return launch(kernel, grid, &params, stream);
}

template <class Kernel>
KernelRow example88_row(void (*function)(typename Kernel::Params)) {
  using Cluster = typename Kernel::ClusterShape;
  return {reinterpret_cast<void const*>(function),
          unsigned(Kernel::MaxThreadsPerBlock),
          unsigned(Kernel::SharedStorageSize),
          {unsigned(cute::size<0>(Cluster{})), unsigned(cute::size<1>(Cluster{})), unsigned(cute::size<2>(Cluster{}))},
          &enqueue_example88<Kernel>};
}
