#include <cutlass/cutlass.h>
#include <cutlass/gemm/gemm.h>
#include <cutlass/numeric_types.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/detail/blockwise_scale_layout.hpp>

// tma_ws:cluster_m=2,cluster_n=1,epilogue=tma,layout=tn,schedule=cooperative,scheduler=persistent,stages=6,swap_ab=False,tile_k=64,tile_m=128,tile_n=128
#line 1 "cutlass_tuner_tma_ws_bf94606c2f0b"
using cutlass_tuner_tma_ws_bf94606c2f0b_t_epilogue =
  typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
    cute::Shape<cute::_128, cute::_128, cute::_64>,
    cute::Shape<cute::_2, cute::_1, cute::_1>,
    cutlass::epilogue::collective::EpilogueTileAuto,
    float, float,
    void, cutlass::layout::RowMajor, 0,
    cutlass::half_t, cutlass::layout::RowMajor, 8,
    cutlass::epilogue::TmaWarpSpecializedCooperative,
    cutlass::epilogue::fusion::LinearCombination<
      cutlass::half_t,
      float,
      void,
      float
    >
  >::CollectiveOp;
using cutlass_tuner_tma_ws_bf94606c2f0b_t_mainloop =
  typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp,
    cutlass::half_t, cutlass::layout::RowMajor, 8,
    cutlass::half_t, cutlass::layout::ColumnMajor, 8,
    float,
    cute::Shape<cute::_128, cute::_128, cute::_64>,
    cute::Shape<cute::_2, cute::_1, cute::_1>,
    cutlass::gemm::collective::StageCount<6>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative
  >::CollectiveOp;
// Gemm operator cutlass_tuner_tma_ws_bf94606c2f0b_t
using cutlass_tuner_tma_ws_bf94606c2f0b_t_base = cutlass::gemm::kernel::GemmUniversal<
    cute::Shape<int,int,int,int>,
    cutlass_tuner_tma_ws_bf94606c2f0b_t_mainloop,
    cutlass_tuner_tma_ws_bf94606c2f0b_t_epilogue,
    cutlass::gemm::PersistentScheduler>;
// Define named type
struct cutlass_tuner_tma_ws_bf94606c2f0b_t :
  public cutlass_tuner_tma_ws_bf94606c2f0b_t_base { };
extern "C" __global__ void
__launch_bounds__(cutlass_tuner_tma_ws_bf94606c2f0b_t::MaxThreadsPerBlock, cutlass_tuner_tma_ws_bf94606c2f0b_t::MinBlocksPerMultiprocessor)
cutlass_tuner_tma_ws_bf94606c2f0b(CUTLASS_GRID_CONSTANT typename cutlass_tuner_tma_ws_bf94606c2f0b_t::Params const params) {
  extern __shared__ char smem[];
  cutlass_tuner_tma_ws_bf94606c2f0b_t{}(params, smem);
}
