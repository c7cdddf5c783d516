// The part of a workspace that must be zero before every launch: stream-K's barriers, which CUTLASS's
// kernels never reset. They follow the partial sums; a launch with other barriers hangs.
struct ZeroRange {
  std::size_t offset, bytes;
};

template <class Kernel>
ZeroRange zero_range(typename Kernel::Arguments const& arguments) {
  if constexpr (cutlass_tuner::is_stream_k<Kernel>) {
    // The scheduler's workspace is partial sums, then one barrier a tile and warp group: asked for no
    // warp group at all, it answers with the partial sums alone.
    std::size_t const epilogue =
        Kernel::CollectiveEpilogue::get_workspace_size(arguments.problem_shape, arguments.epilogue);
    std::size_t const partial_sums =
        Kernel::TileScheduler::template get_workspace_size<typename Kernel::ProblemShape,
                                                           typename Kernel::ElementAccumulator>(
            arguments.scheduler, arguments.problem_shape, arguments.hw_info, 0);
    std::size_t const offset = cutlass::round_nearest(epilogue, std::size_t{cutlass::MinWorkspaceAlignment}) + partial_sums;
    return {offset, Kernel::get_workspace_size(arguments) - offset};
  } else {
    return {0, 0};
  }
}
