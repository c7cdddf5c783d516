cudaLaunchConfig_t launch_config(KernelRow const& kernel, dim3 grid, cudaStream_t stream, cudaLaunchAttribute* cluster) {
  cluster->id = cudaLaunchAttributeClusterDimension;
  cluster->val.clusterDim.x = kernel.cluster[0];
  cluster->val.clusterDim.y = kernel.cluster[1];
  cluster->val.clusterDim.z = kernel.cluster[2];
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kernel.threads);
  config.dynamicSmemBytes = kernel.smem_bytes;
  config.stream = stream;
  config.attrs = cluster;
  config.numAttrs = 1;
  return config;
}
